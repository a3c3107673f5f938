# expect: {"best": "Rain", "missing": "genre, year", "hints": ["genre", "rating", "title", "year"], "optional": ["rating"]}
from typing import Any, Literal, NotRequired, TypedDict, cast, get_type_hints


class Movie(TypedDict):
    title: str
    year: int
    rating: NotRequired[float]
    genre: Literal["drama", "comedy"]


def validate(raw: dict[str, Any]) -> Movie:
    missing = Movie.__required_keys__ - raw.keys()
    if missing:
        raise KeyError(", ".join(sorted(missing)))
    return cast(Movie, raw)


def best(movies: list[Movie]) -> Movie:
    return max(movies, key=lambda movie: movie.get("rating", 0.0))


movies = [
    validate({"title": "Rain", "year": 1999, "genre": "drama", "rating": 8.1}),
    validate({"title": "Laugh", "year": 2005, "genre": "comedy"}),
]
try:
    validate({"title": "?"})
except KeyError as error:
    missing = error.args[0]
{"best": best(movies)["title"], "missing": missing, "hints": sorted(get_type_hints(Movie)), "optional": sorted(Movie.__optional_keys__)}
