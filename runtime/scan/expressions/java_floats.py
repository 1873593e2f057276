"""Doubles and floats as Java writes them, which Spark's casts to text and ``to_json`` use.

From version 19 on Java writes the shortest decimal that is read as the same number.  Older versions write a digit too
many now and then; :func:`_digits_before_19` does what their ``jdk.internal.math.FloatingDecimal`` does.
"""

from __future__ import annotations

import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

#: Bits of the powers of 5 that the old algorithm counts with; of greater ones it takes three bits for each.
_BITS_OF_5 = (0, *((5**power).bit_length() for power in range(1, 27)))
_FRACTION_BITS = 52
_BOTH_WAYS = (ROUND_FLOOR, ROUND_CEILING)
#: Of more digits than a double has.
_EXACT = Context(prec=1200, Emin=-9999, Emax=9999)


def java_text(number: float, *, is_float: bool, before_19: bool) -> str:
    """A number as ``Double.toString`` or ``Float.toString`` writes it.

    Args:
        number: the number.
        is_float: it is a float.
        before_19: Java's version is older than 19.
    """
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    if number == 0:
        return f"{sign}0.0"
    digits, exponent = (_digits_before_19 if before_19 else _shortest_digits)(abs(number), is_float)
    if 0 < exponent < 8:
        return f"{sign}{digits[:exponent].ljust(exponent, '0')}.{digits[exponent:] or '0'}"
    if -3 < exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _shortest_digits(number: float, is_float: bool) -> tuple[str, int]:
    """The digits behind ``0.``, and the exponent, by the rules of Java 19: of two digits, if that is nearer."""
    exact, least, most = Decimal(number), Decimal(0), Decimal(0)
    if is_float:
        least, most = _read_as(number)
    for length in range(2, 18):
        near = [Context(length, rounding, -9999, 9999).plus(exact) for rounding in _BOTH_WAYS]
        same = [one for one in near if (least <= one <= most if is_float else float(one) == number)]
        if same:
            break
    found = min(same, key=lambda one: (abs(_EXACT.subtract(one, exact)), one.as_tuple().digits[-1] % 2))
    _, digits, exponent = found.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return text.rstrip("0"), len(text) + exponent


def _read_as(number: float) -> tuple[Decimal, Decimal]:
    """The least and the greatest of the numbers with few digits that are read as a positive float."""
    (word,) = struct.unpack("I", struct.pack("f", number))
    exact = Decimal(number)
    below = _EXACT.subtract(exact, Decimal(struct.unpack("f", struct.pack("I", word - 1))[0]))
    (above,) = struct.unpack("f", struct.pack("I", word + 1))
    step = below if math.isinf(above) else _EXACT.subtract(Decimal(above), exact)
    # A number right in the middle is read as the even one of two; others have less digits than this margin.
    margin = Decimal(0) if word % 2 == 0 else Decimal(1).scaleb(-400, context=_EXACT)
    ends = _EXACT.subtract(exact, _EXACT.divide(below, Decimal(2))), _EXACT.add(exact, _EXACT.divide(step, Decimal(2)))
    return _EXACT.add(ends[0], margin), _EXACT.subtract(ends[1], margin)


def _digits_before_19(number: float, is_float: bool) -> tuple[str, int]:
    """The digits behind ``0.``, and the exponent, as ``FloatingDecimal.dtoa`` has them."""
    fraction, exponent, significant = _bits(number, is_float)
    zeros = (fraction & -fraction).bit_length() - 1
    bits = _FRACTION_BITS + 1 - zeros
    tiny = max(0, bits - exponent - 1)
    if tiny == 0 and -21 <= exponent <= 62:
        shift = exponent - _FRACTION_BITS
        whole = fraction << shift if shift >= 0 else fraction >> -shift
        return _of_whole(whole, _digits_of_2(exponent - significant - 1))
    return _divided(fraction >> zeros, bits, tiny, exponent, significant, _estimate(fraction, exponent))


def _bits(number: float, is_float: bool) -> tuple[int, int, int]:
    """A number's fraction with its highest bit at place 52, its binary exponent, and how many bits mean something."""
    if is_float:
        word, width, bias = struct.unpack(">I", struct.pack(">f", number))[0], 23, 127
    else:
        word, width, bias = struct.unpack(">Q", struct.pack(">d", number))[0], _FRACTION_BITS, 1023
    exponent, fraction, significant = word >> width, word & ((1 << width) - 1), width + 1
    if exponent:
        fraction |= 1 << width
    else:
        significant = fraction.bit_length()
        shift = width + 1 - significant
        fraction <<= shift
        exponent = 1 - shift
    return fraction << (_FRACTION_BITS - width), exponent - bias, significant


def _digits_of_2(power: int) -> int:
    """How many digits a power of 2 has behind its first."""
    return (power * 1233) >> 12 if power > 1 else 0


def _of_whole(whole: int, insignificant: int) -> tuple[str, int]:
    if insignificant:
        whole, rest = divmod(whole, 10**insignificant)
        whole += rest >= 10**insignificant >> 1
    text = str(whole)
    return text.rstrip("0"), len(text) + insignificant


def _estimate(fraction: int, exponent: int) -> int:
    """The decimal exponent, or one more."""
    normed = fraction / float(1 << _FRACTION_BITS)
    return math.floor((normed - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _bits_of_5(power: int) -> int:
    return _BITS_OF_5[power] if power < len(_BITS_OF_5) else power * 3


def _divided(fraction: int, bits: int, tiny: int, exponent: int, significant: int, decimal: int) -> tuple[str, int]:
    """Picks one digit after the other off a quotient until what is left means nothing."""
    fives, s_fives = max(0, -decimal), max(0, decimal)
    twos, s_twos = fives + tiny + exponent, s_fives + tiny
    m_twos = twos - significant
    twos -= bits - 1
    common = min(twos, s_twos)
    twos, s_twos, m_twos = twos - common, s_twos - common, m_twos - common
    if bits == 1:
        m_twos -= 1
    if m_twos < 0:
        twos, s_twos, m_twos = twos - m_twos, s_twos - m_twos, 0
    rest, divisor, half = (fraction * 5**fives) << twos, 5**s_fives << s_twos, 5**fives << m_twos
    tens = divisor * 10
    # Java counts with ints, longs or numbers without an end, and the sums of the former two may overflow.
    most = max(bits + twos + _bits_of_5(fives), s_twos + 1 + _bits_of_5(s_fives + 1))
    width = 32 if most < 32 else 64 if most < 64 else 0

    def step() -> tuple[int, bool, bool]:
        """The next digit, and whether what is left means nothing, or makes the digit one more."""
        nonlocal rest, half
        digit, rest = divmod(rest, divisor)
        rest, half = rest * 10, _wrapped(half * 10, width)
        if not width:
            return digit, rest < half, rest + half >= tens
        if half <= 0:
            return digit, True, True
        return digit, rest < half, _wrapped(rest + half, width) > tens

    digit, is_low, is_high = step()
    digits = [digit]
    if digit == 0 and not is_high:
        decimal, digits = decimal - 1, []
    if not -3 <= decimal < 8:  # it is written with an exponent, and so with two digits
        is_low = is_high = False
    while not is_low and not is_high:
        digit, is_low, is_high = step()
        digits.append(digit)
    middle = _wrapped(_wrapped(2 * rest, width) - tens, width)
    if is_high and (not is_low or middle > 0 or (middle == 0 and digits[-1] % 2)):
        decimal += _round_up(digits)
    return "".join(map(str, digits)), decimal + 1


def _wrapped(number: int, width: int) -> int:
    """A number in so many bits, with its sign; ``width`` 0: as it is."""
    return (number + (1 << width - 1)) % (1 << width) - (1 << width - 1) if width else number


def _round_up(digits: list[int]) -> int:
    """Add one to the last digit; returns by how much the exponent grows."""
    at = len(digits) - 1
    while digits[at] == 9 and at > 0:
        digits[at] = 0
        at -= 1
    if digits[at] == 9:
        digits[0] = 1
        return 1
    digits[at] += 1
    return 0
