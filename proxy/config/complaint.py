"""What is wrong with a configuration, said all at once."""

from collections.abc import Sequence

from msgspec import Struct


class Complaint(Struct, frozen=True):
    """One rule that does not hold. `value` is as it was written, or says why it is not shown."""

    setting: str
    value: str
    rule: str

    def __str__(self) -> str:
        return f"{self.setting} = {self.value}: {self.rule}"


class Complaints(Exception):
    """A configuration that is refused: every complaint, in the order of the settings."""

    def __init__(self, complaints: Sequence[Complaint]) -> None:
        super().__init__(complaints)
        self.complaints = tuple(complaints)

    def __str__(self) -> str:
        return "\n".join(map(str, self.complaints))
