"""One training step: forward, backward, update, on every device."""

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.contrib import amp

from trainer.config import Config
from trainer.data.batch import Batch
from trainer.learn.optimizer import make_trainer
from trainer.learn.validate import first_label


class Stepper:
    """Holds what a step needs; `network` is initialised on `contexts`."""

    def __init__(self, network, config: Config, contexts: list):
        self.network, self.config, self.contexts = network, config, contexts
        self.trainer = make_trainer(network, config)
        self._loss = gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False)
        if config.precision == "float16":
            amp.init_trainer(self.trainer)

    def step(self, batch: Batch, number: int, learning_rate: float) -> list:
        """Runs step `number`; returns each device's mean loss, not yet waited for.

        MXNet's random generator (dropout) cannot be saved and continued, so every step seeds it anew.
        """
        mx.random.seed((self.config.seed * 1_000_003 + number) % 2**31)
        self.trainer.set_learning_rate(learning_rate)
        images = gluon.utils.split_and_load(nd.array(batch.images), self.contexts)
        labels = gluon.utils.split_and_load(nd.array(first_label(batch.labels)), self.contexts)
        with autograd.record():
            losses = [
                self._loss(self.network(image).astype("float32"), self._smooth(label))
                for image, label in zip(images, labels, strict=True)
            ]
            self._backward(losses)
        self.trainer.step(self.config.batch_size)
        return [loss.mean() for loss in losses]

    def _backward(self, losses: list) -> None:
        if self.config.precision == "float16":
            with amp.scale_loss(losses, self.trainer) as scaled:
                autograd.backward(scaled)
        else:
            autograd.backward(losses)

    def _smooth(self, labels):
        """Class numbers [n] -> target distribution [n, classes] (label smoothing, Szegedy et al. 2015, section 7)."""
        spread = self.config.label_smoothing / self.config.num_classes
        return nd.one_hot(
            labels, self.config.num_classes, on_value=1 - self.config.label_smoothing + spread, off_value=spread
        )
