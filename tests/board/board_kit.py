"""A board's class with people, for tests, and short methods that act on it."""

from datetime import timedelta

from fashion_infer.board.store import admission, people, queue
from fashion_infer.board.store.models import Class, Person, SubmissionRow


class Kit:
    """A class "c" on the CPU, with three students, an assistant and an instructor. The kit has its own clock."""

    def __init__(self, store, start):
        self.store, self.now, self.number = store, start, 0
        with store.write() as session:
            made = people.new_class(
                session, "c", "fa2017", "cpu", "", start + timedelta(days=30), most_pending=50, most_an_hour=1000
            )
            roles = {"Ann": "", "Bob": "", "Cid": "", "Ada": "assistant", "Ina": "instructor"}
            joined = people.join(session, made, [(name, role, "") for name, role in roles.items()])
            self.tokens = {one.person.name: one.token for one in joined}
            self.people = {one.person.name: one.person.id for one in joined}
            self.class_id = made.id

    def change(self, **fields):
        with self.store.write() as session:
            for name, value in fields.items():
                setattr(session.get_one(Class, self.class_id), name, value)

    def pass_time(self, seconds=1.0):
        self.now += timedelta(seconds=seconds)

    def submit(self, who, content=None, seconds=1.0, **options):
        """Submit as the person `who`, by default a second after the last action; return the submission's identifier."""
        self.pass_time(seconds)
        self.number += 1
        content = content if content is not None else f"kernel {self.number}".encode()
        with self.store.write() as session:
            person = session.get_one(Person, self.people[who])
            return admission.accept(session, person, "k.cu", content, at=self.now, **options)[0].id

    def claim(self, owner="me"):
        with self.store.write() as session:
            return queue.claim(session, "cpu", owner, self.now)

    def finish(self, claimed, ms=1.0, seconds=1.0, **outcome):
        """Report a claimed job's outcome after `seconds`; return whether the queue accepted the outcome."""
        self.pass_time(seconds)
        fields = {"status": "judged", "ranked": True, "op_ms": ms, "points": 10.0, "out_of": 10.0, "seconds": seconds}
        with self.store.write() as session:
            return queue.finish(session, claimed.lease, queue.JudgingOutcome(**{**fields, **outcome}), self.now)

    def judge(self, ms=1.0, **outcome):
        """Claim the next job and report its outcome; return its submission's identifier."""
        claimed = self.claim()
        assert self.finish(claimed, ms, **outcome)
        return claimed.submission

    def person(self, session, name):
        return session.get_one(Person, self.people[name])

    def of_class(self, session):
        return session.get_one(Class, self.class_id)

    def status(self, identifier):
        with self.store.read() as session:
            return session.get_one(SubmissionRow, identifier).status
