# SPDX-License-Identifier: Apache-2.0
"""Places of a C source that can have a mistake, and the mistakes.

A mistake replaces the characters start..end of the file by text. When text is a pair, its parts
enclose these characters. A replacement keeps line ends, so line numbers do not change.
"""
import re
from collections import namedtuple

Mistake = namedtuple("Mistake", "kind line start end text")

NOT_CODE = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
        | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*""",
    re.S | re.X | re.M)


def blank(source):
    """Returns the source with spaces in place of comments, literals and directives. Offsets and lines
    do not change."""
    return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


# An operator, and its wrong replacements.
SWAPS = {
    "<": ["<=", ">"], "<=": ["<"], ">": [">=", "<"], ">=": [">"], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"],
    "&&": ["||"], "||": ["&&"], "&": ["|"], "|": ["&"], "^": ["|"],
    "+=": ["=", "-="], "-=": ["=", "+="], "|=": ["=", "&="], "&=": ["="],
    "++": ["--"], "--": ["++"],
}
OPERATOR = re.compile(r"->|\+\+|--|<<=|>>=|<<|>>|&&|\|\||[<>=!+\-*/%&|^]=|[<>=!+\-*/%&|^]")
NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])")
WORD = {"true": "false", "false": "true"}
KEYWORDS = {"return", "if", "while", "for", "sizeof", "case", "else", "do", "switch", "goto"}


def line_of(code, at):
    return code.count("\n", 0, at) + 1


def binary(code, at):
    """Whether the operator at this offset has an operand on its left."""
    left = code[max(at - 200, 0):at].rstrip()
    if not left or left[-1] not in ")]" and not (left[-1].isalnum() or left[-1] == "_"):
        return False
    word = re.search(r"\w+$", left)
    if word and word.group() in KEYWORDS:
        return False
    # A cast: (type)-1, (type *)&x
    return not re.search(r"\((?:const |struct |unsigned )*\w+_t ?\**\)$", left)


def operators(code):
    for m in OPERATOR.finditer(code):
        op = m.group()
        if op == "!":
            yield Mistake("not", line_of(code, m.start()), m.start(), m.end(), "")
        if op not in SWAPS:
            continue
        if op in "+-*/%&|^<>" and not binary(code, m.start()):
            continue
        # A declaration of a pointer: TYPE *name
        if op == "*" and re.search(r"\b(struct \w+|\w+_t|char|int|void|const|unsigned|long) ?$",
                                   code[max(m.start() - 200, 0):m.start()]):
            continue
        for text in SWAPS[op]:
            yield Mistake("operator", line_of(code, m.start()), m.start(), m.end(), text)


def constants(code):
    for m in NUMBER.finditer(code):
        value, suffix = int(m.group(1), 0 if m.group(1)[:2] in ("0x", "0X") else 10), m.group(2)
        form = hex if m.group(1)[:2] in ("0x", "0X") else str
        for other in [value + 1] + ([value - 1] if value else []):
            yield Mistake("constant", line_of(code, m.start()), m.start(), m.end(),
                          form(other) + suffix)
    for m in re.finditer(r"\b(true|false)\b", code):
        yield Mistake("constant", line_of(code, m.start()), m.start(), m.end(), WORD[m.group()])


def closing(code, at):
    """Returns the offset of the parenthesis that closes the one at this offset, or -1."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i
    return -1


def conditions(code):
    for m in re.finditer(r"\bif \(", code):
        start, end = m.end(), closing(code, m.end() - 1)
        if end < 0:
            continue
        line = line_of(code, m.start())
        yield Mistake("condition", line, start, end, ("0 && (", ")"))
        yield Mistake("condition", line, start, end, ("1 || (", ")"))


def returns(code):
    for m in re.finditer(r"\breturn\b([^;]*);", code):
        value = m.group(1).strip()
        if value in ("", "NULL"):
            continue
        lines = "\n" * m.group(1).count("\n")
        start, end = m.start(1), m.end(1)
        if value == "0":
            texts = [" -5"]
        elif re.fullmatch(r"-E\w+", value):
            texts = [" 0", " -EIO" if value != "-EIO" else " -EINVAL"]
        elif value in WORD:
            texts = [" " + WORD[value]]
        else:
            texts = [" 0"]
        for text in texts:
            yield Mistake("return", line_of(code, m.start()), start, end, text + lines)


DECLARES = re.compile(
    r"(?:const |static |volatile |unsigned |struct |enum |union )|(?:\w+ \**\w+ *(?:=|;|,|\[))")


def statements(code):
    """Statements that can be removed: calls, assignments, break, continue, goto."""
    for m in re.finditer(r"(?<=[;{}:)])(\s*)((?:[A-Za-z_*(]|\+\+|--)[^;{}]*;)", code):
        text = m.group(2)
        word = re.match(r"\w+", text)
        if word and word.group() in KEYWORDS - {"goto"} or DECLARES.match(text):
            continue
        before = code[max(m.start(2) - 500, 0):m.start(2)].rstrip()
        if before.endswith(")") and not re.search(r"\b(if|for|while|\w+_each\w*) ?\(",
                                                  before[-400:]):
            continue
        if text.count("(") != text.count(")"):
            continue
        lines = "\n" * text.count("\n")
        # Not just ";", which a compiler finds suspicious behind a condition.
        yield Mistake("statement", line_of(code, m.start(2)), m.start(2), m.end(2),
                      "(void)0;" + lines)


def plant(source, mistake):
    """Returns the source with the mistake."""
    old, new = source[mistake.start:mistake.end], mistake.text
    if isinstance(new, tuple):
        new = new[0] + old + new[1]
    return source[:mistake.start] + new + source[mistake.end:]


def describe(source, mistake):
    """Returns one line with the old and the new text."""
    old = " ".join(source[mistake.start:mistake.end].split())
    if isinstance(mistake.text, tuple):
        return "condition always %s: %s" % ("true" if mistake.text[0][0] == "1" else "false", old)
    return "%s: '%s' -> '%s'" % (mistake.kind, old, mistake.text.strip())


def find(source):
    """Returns all possible mistakes of a source, in the order of lines."""
    code = blank(source)
    found = []
    for kind in (operators, constants, conditions, returns, statements):
        found += list(kind(code))
    return sorted(found, key=lambda m: (m.line, m.start, str(m.text)))
