"""The requests that a server runs before it serves a version."""

import pathlib
import random
import struct

import sentencepiece

from export.errors import InputError
from export.server_runtime.predict_messages import pack_request, unpack_request


def made_up_texts(vocabulary, lengths):
    """Returns a list of str, the same ones each time.

    Args:
        vocabulary: bytes of a SentencePiece model.
        lengths: list of the numbers of pieces that each is made of; read
            again it may have others.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    generator = random.Random(1)
    ids = [
        number
        for number in range(len(processor))
        if not processor.IsControl(number) and not processor.IsUnknown(number)
    ]
    return [
        processor.Decode(generator.choices(ids, k=length)) for length in lengths
    ]


# TFRecord by TensorFlow would be read in a process that export.check wants to
# be without it, so the checksum, CRC-32C, is here.
_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8


def pack_records(records):
    """Returns the bytes of a file of these records.

    Args:
        records: iterable of bytes.
    """
    packed = b""
    for record in records:
        length = struct.pack("<Q", len(record))
        packed += length + _checksum(length) + record + _checksum(record)
    return packed


def unpack_records(content):
    """Returns the records of a file's bytes.

    Raises:
        ValueError: a record is cut off or its checksum is another.
    """
    records, place = [], 0
    while place < len(content):
        length = content[place : place + 8]
        end = place + 12 + int.from_bytes(length, "little")
        record = content[place + 12 : end]
        found = content[place + 8 : place + 12] + content[end : end + 4]
        if found != _checksum(length) + _checksum(record):
            raise ValueError(f"record {len(records) + 1} is damaged")
        records.append(record)
        place = end + 4
    return records


def _checksum(data):
    """Returns the masked CRC-32C."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF
    return struct.pack("<I", masked)


def _table_entry(number):
    for _ in range(8):
        number = number >> 1 ^ (_POLYNOMIAL if number & 1 else 0)
    return number


_TABLE = tuple(map(_table_entry, range(256)))


# Relative to the version's folder; where TensorFlow Serving looks for it.
WARM_UP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")

# Pieces of the sentences of each request: one, and a few of mixed lengths.
_REQUESTS = ([6], [1, 4, 9, 14])


def make_warm_up(tokenizer, names):
    """Returns the content of a file of requests for every signature.

    Args:
        tokenizer: Tokenizer or TokenizerPair.
        names: of the signatures; those of ServedTranslator or ServedParser.
    """
    return pack_records(
        pack_request(name, _inputs(name, tokenizer, lengths))
        for name in names
        for lengths in _REQUESTS
    )


def read_warm_up(version):
    """Returns a dict, signature's name to list of its requests' inputs.

    Args:
        version: pathlib.Path of the version's folder.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    path = version / WARM_UP_FILE
    requests = {}
    try:
        for record in unpack_records(path.read_bytes()):
            name, inputs = unpack_request(record)
            requests.setdefault(name, []).append(inputs)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} cannot be used ({error}); export the model again with "
            "export.saved_model."
        ) from error
    return requests


def _inputs(name, tokenizer, lengths):
    texts = made_up_texts(tokenizer.source.proto, lengths)
    if name == "tokens":
        ids = tokenizer.source.tokenize(texts).to_tensor().numpy()
        return {"ids": ("int32", ids)}
    inputs = {"text": ("string", texts)}
    if name == "score":
        translations = made_up_texts(tokenizer.target.proto, lengths[::-1])
        inputs["translation"] = ("string", translations)
    return inputs
