"""Parses conditions such as ``amount >= 9.99 AND customer LIKE 'A%'`` to a `Predicate`.

A small part of SQL, read by recursive descent::

    condition   = and { OR and }
    and         = not { AND not }
    not         = [NOT] ( "(" condition ")" | test )
    test        = column [ operator literal
                         | [NOT] IN "(" literal { "," literal } ")"
                         | [NOT] BETWEEN literal AND literal
                         | [NOT] LIKE 'pattern'          % any text, _ one character, \\ escapes
                         | IS [NOT] NULL ]               a BOOLEAN column may stand alone
    operator    = "=" | "<>" | "!=" | "<" | "<=" | ">" | ">="
    literal     = 12 | -1.5e3 | 'it''s' | TRUE | FALSE | X'00ff'
                | DATE '2024-02-29' | TIME '12:34:56' | TIMESTAMP '2024-02-29 12:34:56.789'
    column      = name { "." name                        a field of a ROW by its path
                       | "[" 0 "]"                       an element of an ARRAY or VECTOR, from 0 on
                       | "[" literal "]" }               the value of a key of a MAP
                | function "(" column { "," literal } ")"     one of `functions`, in reads alone
    name        = word | "word" | `word`

Keywords may have any case, and names are spelled as in the table. A TIMESTAMP for a column with
local time zone may end with a zone (``Z``, ``+02:00``); without a zone it is in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from stream_app.model.near_names import unknown_name
from stream_app.model.schema.data_type import (
    LIST_ROOTS,
    STRING,
    STRING_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.predicate.literal import (
    Literal,
    LiteralKind,
    comparison,
    fitted_literal,
    like_pattern,
    literal_description,
)
from stream_app.predicate.predicate import (
    Always,
    And,
    Compare,
    Element,
    Entry,
    InnerField,
    IsNull,
    Matches,
    Not,
    OneOf,
    Or,
    Predicate,
    Step,
)
from stream_app.predicate.predicate_functions import ConditionFunction
from stream_app.predicate.tokens import TYPED_LITERALS, Token, TokenCursor, TokenKind, tokens_of

_OPERATORS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_T = TypeVar("_T")
_DEPTH_MAX = 50
"""The depth of NOT and parentheses, over which the parser recurses."""
_INDEX_MAX = 1_000_000
"""The largest index of an element: Arrow adds it to offsets of 32 bits, without a check."""
_TESTS_MAX = 1000
"""The maximum number of comparisons, because Arrow recurses over a chain of AND or OR.

A chain of 10,000 overflows its stack.
"""


def parse_predicate(
    text: str, row_type: RowType, functions: Mapping[str, ConditionFunction] | None = None
) -> Predicate:
    """Parse a condition on rows of these columns.

    Args:
        functions: the functions that the condition may call; None: no functions.

    Raises:
        UsageError: the text is wrong; the error shows the position and what was expected.
    """
    return _Parser(
        text=text, tokens=tokens_of(text), row_type=row_type, functions=functions or {}
    ).parse_all()


def parse_call(
    text: str, row_type: RowType, functions: Mapping[str, ConditionFunction]
) -> DataField:
    """Parse a column, or a function of one, such as ``variant_get(doc, '$.total', 'INT')``.

    Raises:
        UsageError: as `parse_predicate`.
    """
    subject = "column"
    tokens = tokens_of(text, subject)
    parser = _Parser(
        text=text, tokens=tokens, subject=subject, row_type=row_type, functions=functions
    )
    return parser.whole_value()


def named_columns(text: str) -> tuple[str, ...]:
    """Return the columns that a condition names, each once, without a check of types.

    Raises:
        UsageError: the text has a character that conditions do not use.
    """
    tokens = tokens_of(text)
    names = (
        token.text[1:-1] if token.kind is TokenKind.QUOTED else token.text
        for previous_token, token in zip(
            [Token(TokenKind.END, "", 0), *tokens], tokens, strict=False
        )
        if previous_token.text != "."
        and (token.kind is TokenKind.QUOTED or (token.kind is TokenKind.WORD and not token.key))
    )
    return tuple(dict.fromkeys(names))


def check_grammar(text: str) -> None:
    """Check the grammar of a condition whose columns are unknown.

    Raises:
        UsageError: the text is not a condition, whatever the columns.
    """
    _Parser(
        text=text, tokens=tokens_of(text), row_type=RowType(()), functions={}, judges_columns=False
    ).parse_all()


@dataclass(slots=True, kw_only=True)
class _Parser(TokenCursor):
    """A parser that reads tokens from left to right. Each rule of the grammar has a method.

    Attributes:
        judges_columns: whether columns must exist, and literals and tests must fit their types.
    """

    row_type: RowType
    functions: Mapping[str, ConditionFunction]
    judges_columns: bool = True
    _depth: int = field(init=False, default=0)
    _test_count: int = field(init=False, default=0)

    def parse_all(self) -> Predicate:
        predicate = self._condition()
        if self.next_token.kind is not TokenKind.END:
            raise self.expected_error("AND, OR or the end")
        return predicate

    def whole_value(self) -> DataField:
        column = self._column()
        if self.next_token.kind is not TokenKind.END:
            raise self.expected_error("the end")
        return column

    def _condition(self) -> Predicate:
        return self._join("OR", self._and, Or)

    def _and(self) -> Predicate:
        return self._join("AND", self._not, And)

    def _join(
        self, key: str, parse_child: Callable[[], Predicate], node: type[And] | type[Or]
    ) -> Predicate:
        children = [parse_child()]
        while self.accept(key):
            children.append(parse_child())
        return children[0] if len(children) == 1 else node(tuple(children))

    def _not(self) -> Predicate:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self.expected_error(f"at most {_DEPTH_MAX} NOT and ( inside each other")
        if self.accept("NOT"):
            predicate: Predicate = Not(self._not())
        elif self.accept("("):
            predicate = self._condition()
            self.expect(")")
        else:
            predicate = self._test()
        self._depth -= 1
        return predicate

    def _test(self) -> Predicate:
        """Take a column and its comparison; a BOOLEAN column alone is compared with TRUE."""
        self._test_count += 1
        if self._test_count > _TESTS_MAX:
            raise self.expected_error(f"at most {_TESTS_MAX} comparisons (IN takes more values)")
        column = self._column()
        if self.next_token.key in _OPERATORS:
            return self._comparison(column, _OPERATORS[self.take().key])
        if self.accept("IS"):
            is_negated = self.accept("NOT")
            self.expect("NULL")
            return Not(IsNull(column)) if is_negated else IsNull(column)
        is_negated = self.accept("NOT")
        tests = {"IN": self._in, "BETWEEN": self._between, "LIKE": self._like}
        test = tests.get(self.next_token.key)
        if test is not None:
            self.index += 1
            return Not(test(column)) if is_negated else test(column)
        if self._may_be(column, TypeRoot.BOOLEAN) and not is_negated:
            return Compare(column, "=", True)
        operators_text = "IN, BETWEEN or LIKE"
        if not is_negated:
            operators_text = f"=, <>, <, <=, >, >=, IS, NOT, {operators_text}"
        raise self.expected_error(operators_text)

    def _column(self) -> DataField:
        """Take a column, an inner value, or a call; it is STRING if no column is judged."""
        token = self.next_token
        if token.text in self.functions and self.tokens[self.index + 1].key == "(":
            return self._call(self.functions[self.take().text], token)
        if token.kind is TokenKind.QUOTED:
            name = token.text[1:-1]
        elif token.kind is TokenKind.WORD and (not token.key or token.text in self.row_type.names):
            name = token.text
        else:
            raise self.expected_error("a column")
        if not self.judges_columns:
            self.index += 1
            while self.accept(".") or self.accept("["):
                self.take()
                self.accept("]")
            return DataField(field_id=0, name=name, data_type=STRING)
        if name not in self.row_type.names:
            raise self.error_at(
                token.position,
                unknown_name("column", name, self.row_type.names),
                fix=f"name one of the columns {', '.join(self.row_type.names)}",
            )
        self.index += 1
        return self._inner_value(self.row_type.field(name))

    def _call(self, function: ConditionFunction, name: Token) -> DataField:
        """Parse ``name(column, literal, …)``."""
        self.expect("(")
        column = self._column()
        literals: list[Literal] = []
        while self.accept(","):
            literals.append(self._literal(column))
        self.expect(")")
        try:
            return function(column, literals)
        except ValueError as problem:
            raise self.error_at(name.position, f"{name}: {problem}") from None

    def _inner_value(self, column: DataField) -> DataField:
        """Parse the path to a field, element or value; without a path, the column itself."""
        path: list[Step] = [column.name]
        name = column.name
        while self.next_token.key in (".", "["):
            root = column.data_type.root
            if root is TypeRoot.ROW and self.accept("."):
                column = self._field(name, column.data_type)
                path.append(column.name)
                name += f".{column.name}"
            elif root in LIST_ROOTS | {TypeRoot.MAP} and self.accept("["):
                step, column = self._element(column)
                path.append(step)
                name += f"[{step}]"
                self.expect("]")
            else:
                break
        if len(path) == 1:
            return column
        return InnerField(
            field_id=column.field_id, name=name, data_type=column.data_type, path=tuple(path)
        )

    def _field(self, column: str, data_type: DataType) -> DataField:
        fields = RowType(data_type.fields)
        token = self.take()
        name = token.text[1:-1] if token.kind is TokenKind.QUOTED else token.text
        if name not in fields.names:
            raise self.error_at(
                token.position,
                unknown_name("field", name, fields.names),
                fix=f"name one of the fields of {column}: {', '.join(fields.names)}",
            )
        return fields.field(name)

    def _element(self, column: DataField) -> tuple[Element | Entry, DataField]:
        """Parse a step into an array or a map, and return the step and the value at its end."""
        data_type = column.data_type
        assert data_type.element is not None
        element = replace(column, data_type=data_type.element.as_nullable())
        if data_type.key is None:
            token = self.next_token
            if not token.text.isdecimal() or int(token.text) > _INDEX_MAX:
                raise self.expected_error(f"the number of an element, from 0 to {_INDEX_MAX}")
            return Element(int(self.take().text)), element
        key = replace(column, data_type=data_type.key)
        key_token = self.next_token
        fitted_key = self._use_literal(key, lambda literal: fitted_literal(literal, key.data_type))
        if not fitted_key.is_exact:
            problem = f"expected a key of type {data_type.key.as_nullable()}, found {key_token}"
            raise self.error_at(key_token.position, problem)
        return Entry(fitted_key.value, key.data_type), element

    def _may_be(self, column: DataField, *roots: TypeRoot) -> bool:
        return not self.judges_columns or column.data_type.root in roots

    def _comparison(self, column: DataField, operator: str) -> Predicate:
        if column.data_type.root is TypeRoot.BOOLEAN and operator not in ("=", "<>"):
            self.index -= 1
            raise self.expected_error(
                f"= or <> for a column of type {column.data_type.as_nullable()}"
            )
        return self._use_literal(column, lambda literal: comparison(column, operator, literal))

    def _in(self, column: DataField) -> Predicate:
        self.expect("(")
        values = []
        while True:
            fitted_value = self._use_literal(
                column, lambda literal: fitted_literal(literal, column.data_type)
            )
            if fitted_value.is_exact:
                values.append(fitted_value.value)
            if not self.accept(","):
                break
        if not self.accept(")"):
            raise self.expected_error(", or )")
        return OneOf(column, tuple(values)) if values else Always(column, False)

    def _between(self, column: DataField) -> Predicate:
        low = self._comparison(column, ">=")
        self.expect("AND")
        return And((low, self._comparison(column, "<=")))

    def _like(self, column: DataField) -> Predicate:
        if not self._may_be(column, *STRING_ROOTS):
            self.index -= 1
            data_type = column.data_type.as_nullable()
            raise self.expected_error(f"another test than LIKE for a column of type {data_type}")
        if self.next_token.kind is not TokenKind.TEXT:
            raise self.expected_error("a 'pattern'")
        return Matches(column, like_pattern(_unquote(self.take().text)))

    def _use_literal(self, column: DataField, use: Callable[[Literal], _T]) -> _T:
        """Consume a literal and use it; the error points at a literal that does not fit."""
        first_token = self.next_token
        literal = self._literal(column)
        if not self.judges_columns:
            literal = Literal(LiteralKind.TEXT, "")  # any literal fits, and is not evaluated
        try:
            return use(literal)
        except ValueError as problem:
            text = self.text[first_token.position : self.next_token.position].strip()
            raise self.error_at(first_token.position, f"expected {problem}, found {text}") from None

    def _literal(self, column: DataField) -> Literal:
        sign = ""
        if self.next_token.key in ("+", "-"):
            sign = self.take().text
            if self.next_token.kind is not TokenKind.NUMBER:
                raise self.expected_error("a number")
        token = self.next_token
        if token.key in TYPED_LITERALS and self.tokens[self.index + 1].kind is TokenKind.TEXT:
            self.index += 2
            return Literal(LiteralKind(token.key), _unquote(self.tokens[self.index - 1].text))
        if token.key in ("TRUE", "FALSE"):
            literal = Literal(LiteralKind.BOOLEAN, token.key)
        elif token.kind is TokenKind.NUMBER:
            literal = Literal(LiteralKind.NUMBER, sign + token.text)
        elif token.kind is TokenKind.TEXT:
            literal = Literal(LiteralKind.TEXT, _unquote(token.text))
        elif token.kind is TokenKind.BYTES:
            literal = Literal(LiteralKind.BYTES, token.text[2:-1])
        elif token.key == "NULL":
            raise self.expected_error("IS NULL or IS NOT NULL (nothing compares with null)")
        else:
            has_type = self.judges_columns
            raise self.expected_error(
                literal_description(column.data_type) if has_type else "a value"
            )
        self.index += 1
        return literal


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'")
