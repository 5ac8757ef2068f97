# SPDX-License-Identifier: Apache-2.0
"""Run headrace topo on every machine of the folders below argv[1] and check its `expect` lines.

Prints TAP. Environment: HEADRACE, the binary under test. tests/cli/pastes/README.md has the format.
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys

HEADRACE = os.environ['HEADRACE']


class Run:
    """One command line of headrace topo, executed once as text and once as JSON."""

    def __init__(self, folder, words):
        file = folder / words[0]
        if not file.exists():
            raise FileNotFoundError(file)
        self.args = ['topo', '--from', str(file)] + words[1:]
        self.text = self.execute(self.args)
        self.json = None

    @staticmethod
    def execute(args):
        return subprocess.run([HEADRACE] + args, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)

    def document(self):
        if self.json is None:
            self.json = json.loads(self.execute(self.args + ['--json']).stdout)
        return self.json

    def output(self):
        """Both streams; a wrapped sentence is one line."""
        return ' '.join((self.text.stdout + ' ' + self.text.stderr).split())

    def address(self, name):
        """The address of GPU0 or NVME0, or of a function's shorter address."""
        for f in self.document()['functions']:
            if name in (f.get('name'), f['address'], f['address'].removeprefix('0000:')):
                return f['address']
        raise KeyError(name)

    def pair(self, gpu, ssd):
        ends = self.address(gpu), self.address(ssd)
        for p in self.document()['pairs']:
            if (p['gpu'], p['nvme']) == ends:
                return p
        raise KeyError(f'{gpu} {ssd}')

    def holds(self, kind, value):
        """None, or a text that describes the difference."""
        words = value.split()
        if kind == 'exit':
            return self.text.returncode == int(value) or f'exit code {self.text.returncode}'
        if kind == 'says':
            return ' '.join(words) in self.output() or self.output()
        if kind == 'never':
            return ' '.join(words) not in self.output() or self.output()
        if kind == 'pair':
            p = self.pair(words[0], words[1])
            got = p['verdict'], p['kernel_verdict']
            return got[:len(words) - 2] == tuple(words[2:]) or ' '.join(got)
        if kind == 'json':
            got = eval(value, {'d': self.document(), 'pair': self.pair})
            return got is True or f'{got!r}'
        raise ValueError(f'unknown kind of line: {kind}')


def cases(folder):
    """(words of the command, [(kind, value)]) of each section of `expect`."""
    sections = []
    for line in (folder / 'expect').read_text().splitlines():
        line = line.strip()
        if line.startswith('[') and line.endswith(']'):
            sections.append((shlex.split(line[1:-1]), []))
        elif line and not line.startswith('#'):
            kind, _, value = line.partition(' ')
            sections[-1][1].append((kind, value.strip()))
    return sections


def check(folder, words, wanted):
    run = Run(folder, words)
    faults = []
    if run.text.returncode < 0 or 'Sanitizer' in run.text.stderr:
        faults.append(f'crash: {run.text.returncode} {run.text.stderr}')
    for kind, value in wanted:
        try:
            answer = run.holds(kind, value)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            answer = f'{error!r}: {run.output()}'
        if answer is not True:
            faults.append(f'{kind} {value}: {answer}')
    return faults


def main(root):
    count = failed = 0
    for folder in sorted(p for p in pathlib.Path(root).iterdir() if p.is_dir()):
        sections = cases(folder)
        unused = {p.name for p in folder.iterdir()} - {'expect'} - {s[0][0] for s in sections}
        rows = [(' '.join(words), check(folder, words, wanted) if wanted else ['no line'])
                for words, wanted in sections]
        rows += [(name, ['expect has no section for it']) for name in sorted(unused)]
        for name, faults in rows:
            count += 1
            failed += bool(faults)
            print(f"{'not ' if faults else ''}ok {count} - {folder.name}: {name}")
            for fault in faults:
                print('# ' + fault.replace('\n', '\n# '))
    print(f'1..{count}')
    return failed > 0 or count == 0


sys.exit(main(sys.argv[1]))
