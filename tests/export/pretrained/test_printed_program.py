"""The program that export.ctranslate2 prints translates as our search does."""

import pytest
from keras.ops import one_hot

from export.model_directory import ModelDirectory
from export.pretrained.hugging_face_reader import read_hugging_face
from export.pretrained.marian_reader import read_marian
from export.translators.translator import Translator
from keras_transformer.config import END_ID
from tests.export.ctranslate2.test_ctranslate2_command import (
    answer_of_program,
    run,
)
from tests.export.pretrained import npz_directory

pytest.importorskip("ctranslate2")
SEARCH = {
    "stop": "k_finished",
    "length_penalty": "power",
    "max_output_extra": 9,
    "beam_size": 3,
}


def write(directory, model, vocabulary):
    # The two cut what does not end in different ways.
    bias = model.output_embedding.bias
    bias.assign(bias + 6.0 * one_hot(END_ID, bias.shape[0]))
    directory.write_config(model.config.replace(**SEARCH))
    directory.write_run({"dataset": "made up"})
    directory.write_vocabulary(vocabulary)
    directory.write_weights(model)


# "separate" has a vocabulary for each side, "npz" text rules as well.
@pytest.mark.parametrize(
    "name", ["npz", pytest.param("separate", marks=pytest.mark.slow)]
)
def test_the_printed_program(name, marian_folder, tmp_path):
    folder = tmp_path / 'it\'s a [1] "folder"'
    directory = ModelDirectory(folder / "model")
    texts = [">>fra<< vize bo", "rusa to \\ 'ze'!"]
    if name == "npz":
        texts = [f">>fra<< {text} \uff01" for text in texts]
        arrays = npz_directory.arrays_of(npz_directory.model(seed=7))
        npz_directory.write(tmp_path / "npz", arrays)
        found = read_marian(tmp_path / "npz")
    else:
        found = read_hugging_face(marian_folder / name)
    write(directory, found.model, found.vocabulary)
    done = run(
        f"--model_dir={directory.path}",
        f"--output_dir={folder / 'out'}",
    )
    assert done.returncode == 0, done.stderr
    ours = Translator.from_directory(directory.path).translate(texts)
    theirs = [answer_of_program(done.stdout, text) for text in texts]
    assert theirs == [each.text for each in ours]
