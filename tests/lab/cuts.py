# SPDX-License-Identifier: Apache-2.0
"""Power cuts while a guest works: an image of the disk after each, and what was durable by then."""
import json
import os
import random
import threading


class Cuts:
    """Simulates power cuts of one ssd, repeatedly; the guest continues to work.

    Afterwards cuts.json lists for each cut the image, the fate of unflushed writes, and two numbers
    of lines of notes.txt, which the guest writes with `note`: at least `before` and at most `until`
    of them were written before the cut.
    """

    def __init__(self, disk, folder, writes, notes):
        self._disk, self._folder, self._writes, self._notes = disk, folder, writes, notes
        self._random = random.Random(os.path.basename(folder))
        self._cuts = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            number = len(self._cuts)
            image = os.path.join(self._folder, f"cut-{number}.img")
            before = len(self._notes)
            unflushed = self._disk.cut(image, number + 2, self._random.randrange(2 * self._writes))
            if not unflushed:
                return
            self._cuts.append({"image": image, "before": before, "until": len(self._notes),
                               "unflushed": unflushed})

    def close(self):
        """Call it after QEMU has ended: then the disk ends, and with it the last cut."""
        self._thread.join(20)
        if self._thread.is_alive():  # QEMU has never opened the disk
            self._disk.close()
            self._thread.join()
        with open(os.path.join(self._folder, "notes.txt"), "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in self._notes)
        with open(os.path.join(self._folder, "cuts.json"), "w", encoding="utf-8") as f:
            json.dump(self._cuts, f)
