"""Other libraries doing the kit's work: `python peers.py NAME FILE.rec`, in an environment that has the library.

Each line read, `THREADS SECONDS`, is one turn; each line written is JSON: images, seconds, cpu_seconds. The work:
decode, random resized crop to 224, flip half of the time, normalise to float32, colours apart, batches of 64.
"""

import json
import os
import random
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

BATCH, SIZE = 64, 224
MEAN, STD = np.float32([123.68, 116.779, 103.939]), np.float32([58.393, 57.12, 57.375])
_WARM_UP_BATCHES = 4


def read_pictures(path):
    """The JPEGs of a .rec file whose records are one part each, in memory: no peer shall wait for a disk."""
    with open(path, "rb") as file:
        data = file.read()
    pictures, at = [], 0
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 4)[0] & 0x1FFFFFFF
        labels = struct.unpack_from("<I", data, at + 8)[0]
        pictures.append(data[at + 32 + 4 * labels : at + 8 + length])
        at += 8 + (length + 3) // 4 * 4
    return pictures


def crop_box(width, height):
    """left, top, width, height: area 8 to 100 %, aspect ratio 3/4 to 4/3 evenly on a log scale, ten tries."""
    for _ in range(10):
        area, ratio = random.uniform(0.08, 1) * width * height, (4 / 3) ** random.uniform(-1, 1)
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    return 0, 0, width, height


def write(image, out):
    """What OpenCV can do quickest: flip, split, a look-up for each colour."""
    import cv2

    image = cv2.flip(image, 1) if random.random() < 0.5 else image
    for channel, table, plane in zip(cv2.split(image), LEVELS, out, strict=True):
        cv2.LUT(channel, table, dst=plane)


LEVELS = (np.arange(256, dtype=np.float32) - MEAN[:, None]) / STD[:, None]


def in_threads(pictures, threads, show):
    """Batches of show(picture, out) by a pool of threads."""
    with ThreadPoolExecutor(threads) as pool:
        def batch():
            out = np.empty((BATCH, 3, SIZE, SIZE), np.float32)
            for row in range(BATCH):
                show(random.choice(pictures), out[row])
            return out

        tasks = [pool.submit(batch) for _ in range(2 * threads)]
        try:
            while True:
                tasks.append(pool.submit(batch))
                yield len(tasks.pop(0).result())
        finally:
            for task in tasks:
                task.cancel()


def opencv(pictures, threads):
    import cv2

    cv2.setNumThreads(1)

    def show(picture, out):
        image = cv2.cvtColor(cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
        left, top, width, height = crop_box(image.shape[1], image.shape[0])
        write(cv2.resize(image[top : top + height, left : left + width], (SIZE, SIZE)), out)

    return in_threads(pictures, threads, show)


def turbojpeg(pictures, threads):
    import cv2
    from turbojpeg import TJPF_RGB, TurboJPEG

    cv2.setNumThreads(1)
    decoder = TurboJPEG()

    def show(picture, out):
        image = decoder.decode(picture, pixel_format=TJPF_RGB)
        left, top, width, height = crop_box(image.shape[1], image.shape[0])
        write(cv2.resize(image[top : top + height, left : left + width], (SIZE, SIZE)), out)

    return in_threads(pictures, threads, show)


def torch(pictures, threads):
    import io

    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision import transforms

    view = transforms.Compose([
        transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize((MEAN / 255).tolist(), (STD / 255).tolist()),
    ])  # fmt: skip

    class Pictures(Dataset):
        def __len__(self):
            return 1_000_000

        def __getitem__(self, i):
            return view(Image.open(io.BytesIO(pictures[i % len(pictures)])).convert("RGB"))

    for batch in DataLoader(Pictures(), batch_size=BATCH, num_workers=threads, shuffle=True):
        yield len(batch)


def tensorflow(pictures, threads):
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")

    def show(picture):
        shape = tf.image.extract_jpeg_shape(picture)
        start, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.constant([[[0.0, 0, 1, 1]]]), aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1),
            use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        image = tf.image.decode_and_crop_jpeg(picture, tf.concat([start[:2], size[:2]], 0), channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (SIZE, SIZE)))
        return tf.transpose((image - MEAN) / STD, (2, 0, 1))

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    data = tf.data.Dataset.from_tensor_slices(pictures).repeat().shuffle(1000)
    data = data.map(show, num_parallel_calls=threads).batch(BATCH).prefetch(2).with_options(options)
    for batch in data:
        yield len(batch)


def dali(pictures, threads):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None)
    def pipeline():
        files = fn.external_source(lambda: [np.frombuffer(random.choice(pictures), np.uint8) for _ in range(BATCH)])
        images = fn.decoders.image_random_crop(
            files, device="cpu", output_type=types.RGB, random_area=[0.08, 1], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        images = fn.resize(images, size=[SIZE, SIZE], interp_type=types.INTERP_LINEAR, antialias=False)
        return fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN.tolist(), std=STD.tolist(),
            mirror=fn.random.coin_flip(),
        )  # fmt: skip

    made = pipeline()
    made.build()
    while True:
        yield len(made.run()[0])


PEERS = {
    "opencv threads": opencv, "PyTurboJPEG": turbojpeg, "torch + PIL": torch, "tf.data": tensorflow, "DALI CPU": dali,
}  # fmt: skip


def cpu_seconds():
    """Of this process and of all its living descendants: torch's workers are processes."""
    ticks, pids = 0, [os.getpid()]
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                pids += map(int, file.read().split())
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def stdout_for_results():
    """A stream of our own: libraries print what they like to theirs."""
    with os.fdopen(os.dup(1), "w") as results:
        os.dup2(2, 1)
        yield results


def main(name, path):
    pictures = read_pictures(path)
    with stdout_for_results() as results:
        for line in sys.stdin:
            threads, seconds = int(line.split()[0]), float(line.split()[1])
            batches = PEERS[name](pictures, threads)
            for _ in range(_WARM_UP_BATCHES):
                next(batches)
            images, cpu, began = 0, cpu_seconds(), time.monotonic()
            while time.monotonic() - began < seconds:
                images += next(batches)
            turn = {"images": images, "seconds": time.monotonic() - began, "cpu_seconds": cpu_seconds() - cpu}
            batches.close()
            print(json.dumps(turn), file=results, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
