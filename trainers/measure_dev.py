"""Measures the dev split while fit runs, and notices a plateau."""

import keras


class MeasureDev(keras.callbacks.Callback):
    """Evaluates every so many updates, and after the last.

    Args:
        counter: StepCounter.
        data: what `model.evaluate` takes.
        batches: how many of its batches hold the whole split.
        every: updates between measures.
        patience: so many measures without a better one end the training; 0
            for never.
        history: measures so far, list of dict; added to.
        report: function of a measure: a dict of step, loss, perplexity,
            accuracy and, where it is measured, bleu.
        bleu: function that returns BLEU, or None.

    Attributes:
        history: the measures, the latest last.
    """

    def __init__(
        self,
        counter,
        data,
        batches,
        every,
        patience,
        history,
        report,
        bleu=None,
    ):
        super().__init__()
        self.history = history
        self._counter = counter
        self._data = data
        self._batches = batches
        self._every = every
        self._patience = patience
        self._report = report
        self._bleu = bleu

    def on_train_batch_end(self, batch, logs=None):
        """Measures, and stops fit on a plateau, when it is time."""
        if self._counter.finished or self._counter.is_multiple_of(self._every):
            self._measure()
            if on_plateau(self.history, self._patience):
                self.model.stop_training = True

    def _measure(self):
        figures = self.model.evaluate(
            self._data, steps=self._batches, return_dict=True, verbose=0
        )
        measure = {"step": self._counter.step, **figures}
        if self._bleu is not None:
            measure["bleu"] = self._bleu()
        self.history.append(measure)
        self._report(measure)


def on_plateau(history, patience):
    """Whether dev has not become better for too long, as `best_first` has it.

    Args:
        history: measures, list of dict.
        patience: measures without a better one; 0 for never too long.
    """
    if not patience or not history:
        return False
    return len(history) - 1 - history.index(best_first(history)[0]) >= patience


def best_first(history):
    """Returns the measures, the best first, of equals the earliest.

    Better is a higher BLEU where that was measured, else a lower loss.

    Args:
        history: measures, list of dict.
    """
    if history and "bleu" in history[-1]:
        return sorted(history, key=lambda m: -m.get("bleu", 0.0))
    return sorted(history, key=lambda measure: measure["loss"])
