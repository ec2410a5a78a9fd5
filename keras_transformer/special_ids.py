"""The ids that every vocabulary of this package begins with."""

PAD_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3

# No translation holds these: padding would look like an end, and an unknown
# piece is nothing that a reader can use.
FORBIDDEN_IDS = (PAD_ID, UNKNOWN_ID, BEGIN_ID)
