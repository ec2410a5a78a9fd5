"""Text of a vocabulary's own pieces, where there is no other."""

import random

import sentencepiece


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
