"""TFRecord files, against TensorFlow's own reader and writer."""

import pytest
import tensorflow as tf

from export.serving.warm_up import pack_records, unpack_records

RECORDS = [b"", b"\x00", b"caf\xc3\xa9" * 1000, bytes(range(256))]


def test_tensorflow_reads_what_is_packed(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(pack_records(RECORDS))
    found = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    assert list(found) == RECORDS


def test_what_tensorflow_writes_is_unpacked(tmp_path):
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in RECORDS:
            writer.write(record)
    assert unpack_records(path.read_bytes()) == RECORDS
    assert unpack_records(b"") == []


@pytest.mark.parametrize("place", [0, 9, 20, -1])
def test_a_changed_byte_is_found(place):
    content = bytearray(pack_records([b"one record"]))
    content[place] ^= 1
    with pytest.raises(ValueError, match="record 1"):
        unpack_records(bytes(content))


def test_an_end_that_is_cut_off_is_found():
    content = pack_records([b"one", b"two"])
    for end in (len(content) - 1, len(content) - 10):
        with pytest.raises(ValueError, match="record 2"):
            unpack_records(content[:end])
