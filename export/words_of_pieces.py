"""Which piece is of which word."""

# SentencePiece's mark of a word's beginning.
SPACE = "\u2581"


def words_of_pieces(pieces):
    """Returns the number of each piece's word.

    A word is what the text has between white space, so what is written
    without any, such as Chinese, is one word.

    Args:
        pieces: list of str, such as "\u2581the"; none that stands for an end.

    Returns:
        A list of int from 0, ascending; a lone space belongs to the next
        word.
    """
    words, word, begins = [], -1, True
    for piece in pieces:
        begins = begins or piece.startswith(SPACE)
        if begins and piece.strip(SPACE):
            word, begins = word + 1, False
        words.append(word + begins)
    # A space at the very end begins no word.
    return [max(min(each, word), 0) for each in words]
