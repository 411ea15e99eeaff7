"""The worker's side of a GPU: maps the referee's device memory, and waits for the work that a submission has queued."""

import os

from . import abi, driver


class Device:
    """The one device that the sandbox shows, with shared memory of a size and a descriptor; the size may be 0."""

    def __init__(self, size: int, descriptor: int):
        device = driver.begin(0)
        self.memory = 0
        if size:
            self._block = driver.Block(device, size, descriptor)
            self.memory = self._block.address
            os.close(descriptor)

    def settle(self, call: abi.Call) -> int:
        try:
            driver.synchronize()
        except driver.DriverError as error:
            call.message = str(error).encode()[:500]
            return abi.DEVICE_ERROR
        return abi.OK
