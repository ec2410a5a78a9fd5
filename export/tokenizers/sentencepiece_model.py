"""The messages of a SentencePiece model file.

`sentencepiece_model_pb2` of the package sentencepiece needs the version of
protobuf that generated it, or a newer one, and older versions of TensorFlow
need an older one. These are the same messages, of sentencepiece_model.proto in
https://github.com/google/sentencepiece, for any version.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "sentencepiece"
# Each field has a name, a number, a type and maybe a default; * is repeated.
_FIELDS = {
    "TrainerSpec": """
        *input 1 string, input_format 7 string, model_prefix 2 string,
        model_type 3 TrainerSpec.ModelType UNIGRAM, vocab_size 4 int32 8000,
        *accept_language 5 string, self_test_sample_size 6 int32 0,
        character_coverage 10 float 0.9995, input_sentence_size 11 uint64 0,
        mining_sentence_size 12 int32, training_sentence_size 13 int32,
        seed_sentencepiece_size 14 int32 1000000,
        shrinking_factor 15 float 0.75, num_threads 16 int32 16,
        num_sub_iterations 17 int32 2, max_sentence_length 18 int32 4192,
        shuffle_input_sentence 19 bool true,
        max_sentencepiece_length 20 int32 16,
        split_by_unicode_script 21 bool true, split_by_whitespace 22 bool true,
        split_by_number 23 bool true, treat_whitespace_as_suffix 24 bool false,
        split_digits 25 bool false, allow_whitespace_only_pieces 26 bool false,
        *control_symbols 30 string, *user_defined_symbols 31 string,
        vocabulary_output_piece_score 32 bool true,
        hard_vocab_limit 33 bool true, use_all_vocab 34 bool false,
        byte_fallback 35 bool false, required_chars 36 string,
        unk_id 40 int32 0, bos_id 41 int32 1, eos_id 42 int32 2,
        pad_id 43 int32 -1, unk_surface 44 string, unk_piece 45 string <unk>,
        bos_piece 46 string <s>, eos_piece 47 string </s>,
        pad_piece 48 string <pad>, train_extremely_large_corpus 49 bool false,
        enable_differential_privacy 50 bool false,
        differential_privacy_noise_level 51 float 0,
        differential_privacy_clipping_threshold 52 uint64 0,
        pretokenization_delimiter 53 string, seed_sentencepieces_file 54 string,
        auto_character_coverage 55 bool false""",
    "NormalizerSpec": """
        name 1 string, precompiled_charsmap 2 bytes,
        add_dummy_prefix 3 bool true, remove_extra_whitespaces 4 bool true,
        escape_whitespaces 5 bool true, normalization_rule_tsv 6 string""",
    "ModelProto": """
        *pieces 1 ModelProto.SentencePiece, trainer_spec 2 TrainerSpec,
        normalizer_spec 3 NormalizerSpec,
        denormalizer_spec 5 NormalizerSpec""",
    "ModelProto.SentencePiece": """
        piece 1 string, score 2 float,
        type 3 ModelProto.SentencePiece.Type NORMAL""",
}
_ENUMS = {
    "TrainerSpec.ModelType": "UNIGRAM 1, BPE 2, WORD 3, CHAR 4",
    "ModelProto.SentencePiece.Type": "NORMAL 1, UNKNOWN 2, CONTROL 3, "
    "USER_DEFINED 4, UNUSED 5, BYTE 6",
}


def _describe_messages():
    """Returns the FileDescriptorProto of the messages."""
    file = descriptor_pb2.FileDescriptorProto(
        name="sentencepiece_model.proto", package=_PACKAGE, syntax="proto2"
    )
    messages = {"": file}
    for name, fields in _FIELDS.items():
        parent, _, short = name.rpartition(".")
        parent = messages[parent]
        nested = parent.message_type if parent is file else parent.nested_type
        messages[name] = nested.add(name=short)
        for text in fields.split(","):
            _add_field(messages[name], *text.split())
    for name, values in _ENUMS.items():
        parent, _, short = name.rpartition(".")
        enum = messages[parent].enum_type.add(name=short)
        for text in values.split(", "):
            value, number = text.split()
            enum.value.add(name=value, number=int(number))
    return file


def _add_field(message, name, number, kind, default=None):
    types = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name.lstrip("*"), number=int(number))
    is_repeated = name.startswith("*")
    field.label = types.LABEL_REPEATED if is_repeated else types.LABEL_OPTIONAL
    if kind in _FIELDS or kind in _ENUMS:
        field.type = types.TYPE_ENUM if kind in _ENUMS else types.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = types.Type.Value(f"TYPE_{kind.upper()}")
    if default is not None:
        field.default_value = default


def _make_message(name):
    return message_factory.GetMessageClass(
        _POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    )


# Of its own, since the package sentencepiece adds its messages to another.
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_describe_messages())
ModelProto = _make_message("ModelProto")
NormalizerSpec = _make_message("NormalizerSpec")
TrainerSpec = _make_message("TrainerSpec")
