"""The page of the API."""


def page() -> str:
    return "# API\n"
