"""`python -m trainer.data.native`: builds the crop decoder, or says why this machine does without."""

import os

from trainer.data.native.build import build, library_path

if __name__ == "__main__":
    os.umask(0o022)  # code, also for another user than the one who builds it
    existed = library_path().exists()
    reason = build()
    if reason:
        print(f"skipped: {reason}; whole pictures are decoded with simplejpeg instead")
    else:
        print(f"{'found' if existed else 'built'} {library_path()}")
