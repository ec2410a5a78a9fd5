"""The ids that every vocabulary of this package begins with."""

PAD_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3
