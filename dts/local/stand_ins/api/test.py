"""Local stand-ins for api.test of DTS."""


class TestFailed(Exception):
    """A verified condition doesn't hold."""


class TestSkipped(Exception):
    """The case can't run here; says why."""


def verify(condition, failure_description):
    if not condition:
        raise TestFailed(failure_description)


def fail(failure_description):
    raise TestFailed(failure_description)


def verify_else_skip(condition, skip_reason):
    if not condition:
        raise TestSkipped(skip_reason)


def skip(skip_description):
    raise TestSkipped(skip_description)


def log(message):
    print(f"    {message}")
