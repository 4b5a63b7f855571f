import gc
import weakref

from tonearm.worker.memory import FreedMemory


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_what_refers_to_itself_is_given_back_after_a_session() -> None:
    gc.disable()
    try:
        memory, ring = FreedMemory(), Ring()
        is_left = weakref.ref(ring)
        del ring
        memory.note()
        memory.give_back()
        assert is_left() is not None
        memory._last_s = 0.0  # long ago
        memory.note_session()
        memory.give_back()
        assert is_left() is None
    finally:
        gc.enable()
