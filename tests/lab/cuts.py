"""Power cuts while a guest works: images of what each would leave, and what was promised before it."""
import json
import os
import random
import threading


class Cuts:
    """Cuts the power of one ssd again and again; the guest does not notice.

    Afterwards cuts.json lists images with what became of unflushed writes, and how many lines of
    notes.txt the guest had told (by `note`) for certain before the cut and at most until it.
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
            said = self._disk.cut(image, number + 2, self._random.randrange(2 * self._writes))
            if not said:
                return
            self._cuts.append({"image": image, "before": before, "until": len(self._notes),
                               "said": said})

    def close(self):
        """To be called when QEMU has ended: its disk ends then, and with that the last cut."""
        self._thread.join(20)
        if self._thread.is_alive():  # QEMU never came to its disk
            self._disk.close()
            self._thread.join()
        with open(os.path.join(self._folder, "notes.txt"), "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in self._notes)
        with open(os.path.join(self._folder, "cuts.json"), "w", encoding="utf-8") as f:
            json.dump(self._cuts, f)
