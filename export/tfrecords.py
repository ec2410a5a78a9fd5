"""TFRecord files: records with their lengths and checksums."""

import struct

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
