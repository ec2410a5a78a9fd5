"""The search in an ONNX file finds what `translate_ids` finds."""

import keras
import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from export.onnx import graph
from export.onnx.onnx_model import OnnxModel
from export.translators.batches import pad_ids
from export.translators.languages import Languages
from keras_transformer.config import END_ID
from keras_transformer.decoding.alignment import gather_alignments
from keras_transformer.decoding.target_language import TargetLanguageModel
from tests import made_up_text
from tests.export import tiny

NO_LANGUAGES = Languages()
# Of both languages: the first id of a source is the decoder's.
BOTH = Languages(num_tags=2)
LENGTHS = (1, 2, 9, 4, 6)


def choices(**options):
    return {name: st.sampled_from(each) for name, each in options.items()}


@st.composite
def configs(draw):
    fields = draw(
        st.fixed_dictionaries(
            choices(
                vocabulary_size=[5, 7, 40],
                num_layers=[1, 2],
                num_decoder_layers=[0, 1, 3],
                d_model=[8, 20],
                d_ff=[8, 24],
                num_heads=[1, 2, 4],
                d_k=[4, 5],
                d_v=[4, 6],
                norm=["pre", "post"],
                activation=["relu", "gelu", "silu"],
                attention_bias=[True, False],
                share_embeddings=["all", "target-softmax", "none"],
                output_bias=[True, False],
                positions=["sinusoidal", "learned"],
                max_positions=[12, 64],
                beam_size=[1, 2, 4],
                alpha=[-0.5, 0.0, 0.6, 2.0],
                length_penalty=["gnmt", "power"],
                stop_criterion=["heuristic", "exact", "k_finished"],
                max_extra_tokens=[0, 3, 10],
                no_repeat_ngram_size=[0, 1, 2, 3],
                repetition_penalty=[1.0, 1.3],
            )
        )
    )
    if fields["positions"] == "sinusoidal":
        rates = ["paper", "marian", "fairseq"]
        fields["sinusoid_rates"] = draw(st.sampled_from(rates))
    if fields["share_embeddings"] != "all":
        fields["source_vocabulary_size"] = draw(st.sampled_from([0, 30]))
    return fields


def sources(config, lengths):
    generator = np.random.default_rng(1)
    size = config.encoder_vocabulary_size
    return [
        [*generator.integers(END_ID + 1, size, length - 1), END_ID]
        for length in lengths
    ]


def write(model, path, **options):
    """Returns a function of rows of ids that returns the file's outputs."""
    options = {"languages": NO_LANGUAGES, **options}
    vocabulary = made_up_text.vocabulary()
    OnnxModel(model, vocabulary, **options).write_search(path)
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_outputs()]

    def run(rows):
        inputs = {"source": pad_ids(rows).astype(np.int64)}
        return dict(zip(names, session.run(None, inputs)))

    return run


def search(model, rows, align=False, **fields):
    config = kt.BeamSearchConfig.from_config(
        model.config,
        num_given_tokens=model.num_given_tokens,
        min_length=1,
        **fields,
    )
    return kt.translate_ids(
        model, pad_ids(rows), config=config, trace_alignments=align
    )


def assert_same(outputs, expected):
    """Compares possible hypotheses and their scores."""
    scores = np.asarray(expected.scores)
    is_possible = scores > -1e8
    np.testing.assert_array_equal(outputs["scores"] > -1e8, is_possible)
    np.testing.assert_allclose(
        outputs["scores"][is_possible],
        scores[is_possible],
        atol=1e-4,
        rtol=1e-5,
    )
    rows = [trim(row) for row in outputs["tokens"][is_possible]]
    expected_rows = np.asarray(expected.tokens)[is_possible]
    assert rows == [trim(row) for row in expected_rows]
    return is_possible


def trim(row):
    return np.trim_zeros(row, "b").tolist()


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[*HealthCheck],
)
@given(fields=configs(), both=st.booleans())
def test_any_configuration(tmp_path_factory, fields, both):
    model = tiny.model(**{"max_extra_tokens": 5, **fields})
    path = tmp_path_factory.mktemp("onnx") / "translate.onnx"
    lengths = [length + both for length in LENGTHS[both:]]
    rows = sources(model.config, lengths)
    run = write(
        model, path, align=True, languages=BOTH if both else NO_LANGUAGES
    )
    outputs = run(rows)
    reference = TargetLanguageModel(model) if both else model
    expected = search(reference, rows, align=True)
    is_possible = assert_same(outputs, expected)
    alignments = np.asarray(gather_alignments(expected.state, expected.tokens))
    log_probs = outputs["token_log_probs"]
    for sentence, beam in zip(*np.nonzero(is_possible)):
        count = len(trim(outputs["tokens"][sentence, beam]))
        np.testing.assert_allclose(
            outputs["alignment"][sentence, beam, :count],
            alignments[sentence, beam, :count],
            atol=1e-5,
        )
        config = model.config
        penalty = kt.BeamSearchConfig.from_config(
            config, num_given_tokens=reference.num_given_tokens
        ).penalty(count)
        np.testing.assert_allclose(
            log_probs[sentence, beam, :count].sum() / float(penalty),
            outputs["scores"][sentence, beam],
            atol=1e-4,
            rtol=1e-5,
        )


@pytest.fixture(name="model", scope="module")
def fixture_model():
    return tiny.model(num_layers=2, beam_size=3)


def test_a_sentence_does_not_depend_on_its_batch(model, tmp_path):
    run = write(model, tmp_path / "translate.onnx")
    rows = sources(model.config, range(2, 34))
    outputs = run(rows)
    for index, row in enumerate(rows):
        alone = run([row])
        width = alone["tokens"].shape[2]
        np.testing.assert_array_equal(
            outputs["tokens"][index, :, :width], alone["tokens"][0]
        )
        assert not outputs["tokens"][index, :, width:].any()
        np.testing.assert_allclose(
            outputs["scores"][index], alone["scores"][0], atol=1e-5
        )


@pytest.mark.parametrize("bias", [False, True])
def test_chosen_target_pieces(bias, tmp_path):
    model = tiny.model(num_layers=2, beam_size=3, output_bias=bias)
    pieces = [*range(10, 60)]
    run = write(model, tmp_path / "translate.onnx", target_pieces=pieces)
    rows = sources(model.config, LENGTHS)
    subset = kt.OutputVocabulary.fixed(pieces, model.config.vocabulary_size)
    expected = search(subset.restrict(model), rows)
    outputs = run(rows)
    local_ids = np.searchsorted(subset.ids, outputs["tokens"])
    assert len(np.unique(local_ids)) > 5
    assert_same(outputs | {"tokens": local_ids}, expected)


def test_weights_in_a_file_of_their_own(model, tmp_path, monkeypatch):
    rows = sources(model.config, LENGTHS)
    expected = write(model, tmp_path / "one.onnx")(rows)
    monkeypatch.setattr(graph, "_MAX_PROTO_BYTES", 10)
    outputs = write(model, tmp_path / "two.onnx")(rows)
    np.testing.assert_array_equal(outputs["scores"], expected["scores"])
    weights = tmp_path / "two.onnx.data"
    # Those of less than 1 kB stay in the file.
    assert weights.stat().st_size > 2 * model.count_params()
    mode = (tmp_path / "two.onnx").stat().st_mode
    assert weights.stat().st_mode == mode
    assert {each.name for each in tmp_path.iterdir()} == {
        *("one.onnx", "two.onnx", "two.onnx.data")
    }


def test_given_settings_of_the_search(model, tmp_path):
    fields = {"beam_size": 2, "alpha": 1.0, "no_repeat_ngram_size": 2}
    run = write(model, tmp_path / "translate.onnx", **fields)
    rows = sources(model.config, LENGTHS)
    other = tiny.model(num_layers=2, **fields)
    assert_same(run(rows), search(other, rows))


def test_int8_rounds_little(tmp_path):
    keras.utils.set_random_seed(1)
    config = tiny.config(d_model=64, d_ff=128, num_layers=2, beam_size=1)
    model = kt.Transformer(config)
    model.build()
    paths = tmp_path / "float32.onnx", tmp_path / "int8.onnx"
    float32, int8 = (
        write(model, path, quantization=quantization)
        for path, quantization in zip(paths, (None, "int8"))
    )
    rows = sources(model.config, [9] * 40)
    expected, outputs = float32(rows), int8(rows)
    pairs = zip(outputs["tokens"][:, 0], expected["tokens"][:, 0])
    same = [trim(one) == trim(other) for one, other in pairs]
    assert np.mean(same) > 0.3
    np.testing.assert_allclose(
        outputs["scores"][same], expected["scores"][same], rtol=0.05
    )
    sizes = [path.stat().st_size for path in paths]
    assert sizes[1] < 0.4 * sizes[0]
