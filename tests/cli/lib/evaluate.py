# SPDX-License-Identifier: Apache-2.0
"""Evaluates Python expressions about JSON documents for the script that started it. One process serves
the whole script, because the start of Python takes longer than most runs of headrace.

usage: evaluate.py FOLDER   with two named pipes in FOLDER: ask, answer

A request is FILE, NAME and EXPRESSION, each followed by a zero byte. In the expression, NAME is the
document in FILE. The answer is "=" and the value, or "!" and the error.
"""
import json
import os
import sys


def answer_to(file, name, expression):
    try:
        with open(file, encoding="utf-8") as f:
            names = {"json": json, name: json.load(f)}
        return f"={eval(expression, names)}"  # pylint: disable=eval-used  # the tests' own text
    except Exception as error:  # pylint: disable=broad-except  # any error fails the check
        return f"!{error!r}"


def main():
    ask, answer = (os.path.join(sys.argv[1], name) for name in ("ask", "answer"))
    while True:
        with open(ask, encoding="utf-8") as f:
            request = f.read().split("\0")
        said = answer_to(*request[:3])
        with open(answer, "w", encoding="utf-8") as f:
            f.write(said + "\n")


main()
