"""Local stand-ins for framework.test_suite of DTS."""


class BaseConfig:
    """Fields are class attributes with their defaults; the constructor replaces some."""

    def __init__(self, **values):
        for name, value in values.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no field {name}")
            setattr(self, name, value)


class TestSuite:
    config: BaseConfig

    def __init__(self, config):
        self.config = config

    def set_up_suite(self):
        pass

    def tear_down_suite(self):
        pass

    def set_up_test_case(self):
        pass

    def tear_down_test_case(self):
        pass


def func_test(function):
    function.is_func_test = True
    return function
