"""The package's exceptions, each with the exit code with which the command line ends.

A message is one line. It says what is wrong and, where there is a remedy, what to do about it. The command line prints
it after "fashion-infer: ".
"""


class FashionInferError(Exception):
    """Base of every error that a user of this package can cause."""

    exit_code = 1


class UsageError(FashionInferError):
    """An argument out of range, or an unknown name."""

    exit_code = 2


class DataError(FashionInferError):
    """A dataset that is missing, damaged, or inconsistent with its header."""

    exit_code = 3


class CheckpointError(FashionInferError):
    """A checkpoint that is missing, damaged, or does not fit the network."""

    exit_code = 3


class DeviceError(FashionInferError):
    """A missing device, too little device memory, or a library that cannot be built or loaded."""

    exit_code = 4


class CheckFailed(FashionInferError):
    """A measured result differs from the expected one."""

    exit_code = 1
