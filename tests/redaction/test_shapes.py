"""What is a secret and what is none."""

from __future__ import annotations

import base64
import hashlib
import random
import re
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.redaction import PLACEHOLDER, SHAPES, Redactor, Shape

REDACTOR = Redactor(key=b"of this test")
PEM = "-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
BODY = "\n".join(base64.b64encode(hashlib.sha512(bytes([line])).digest()).decode()[:64] for line in range(12))
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

# Made up, in the shapes that providers publish; put together here so that no scanner takes this file for a leak.
KEYS = {
    "openai-key": ["sk-" + "proj-" + "Ab1" * 16, "sk-" + "abcdefghijklmnopqrst" * 2],
    "anthropic-key": ["sk-ant-" + "api03-" + "Xy9_" * 20],
    "aws-access-key-id": ["AKIA" + "IOSFODNN7EXAMPLE"],
    "google-api-key": ["AIza" + "Sy0123456789abcdefghijklmnopqrstu-_"],
    "threadkeep-key": ["tk_" + "0a1b2c3d" * 2 + "_" + "aB3_-x" * 7 + "Z"],
    "github-token": ["ghp_" + "a1B2" * 9, "github_pat_" + "11AAAAAAA0" + "b3_C" * 18],
    "gitlab-token": ["glpat-" + "Ab_1-" * 4],
    "slack-token": ["xoxb-" + "123456789012-" * 2 + "AbCdEf"],
    "stripe-key": ["sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc"],
    "huggingface-token": ["hf_" + "AbCdEfGhIj" * 3 + "KlMn"],
    "npm-token": ["npm_" + "a1B2c3D4e5F6" * 3],
    "jwt": [JWT],
    "private-key": [PEM.format(body=BODY), PEM.format(body=BODY).replace("\n", "\\n")],
}

IN_CONTEXT = [
    ("postgresql://ann:{}@localhost:5432/db", "hunter22"),
    ("redis://:{}@cache:6379/0", "p@ss/w0rd".replace("/", "")),
    ("Authorization: Bearer {}", "abcdef0123456789"),
    ('curl -H "Authorization: Basic {}"', "YW5uOmh1bnRlcjI="),
    ("bearer {}", "9f86d081884c7d659a2feaa0c55ad015"),
    ("password={}", "Tr0ub4dor&3".replace("&", "_")),
    ("DB_PASSWORD={}", "correcthorse9"),
    ("export OPENAI_API_KEY={}", "a8f5f167f44f4964"),
    ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ('{{"password": "{}"}}', "hunter22"),
    ('"{{\\"api_key\\": \\"{}\\"}}"', "abc123def456"),
    ("api_key: '{}'", "abc123def"),
    ("https://host/x?api-key={}&page=2", "abc123def"),
    ("psql --password {} -h db", "Abc12345x"),
    ("密码：{}", "Abc12345"),
    ("密码是{}，别告诉别人", "Abc12345"),
    ("密码：“{}”", "Abc12345"),
    ("パスワードは「{}」です", "Abc12345"),
    ("Das Passwort: {}", "Sommer2024x"),
    ("the password is {} for now", "Sommer2024x"),
    ("the token is: '{}'", "abc123def"),
    ("const clientSecret = `{}`;", "8f14e45fceea167a5a36dedd4bea2543"),
]

NO_SECRETS = [
    "c15c8ad0f3a1b2c4d5e6f708192a3b4c5d6e7f80",
    str(uuid.UUID(int=2**127 + 12345)),
    "token: str | None = None",
    "def login(password: str, token: Token2) -> Session:",
    "password = get_password(user_id=12)",
    "api_key=settings.api_key_2",
    "self._token = self._token_2",
    "token = tokens[0]",
    "max_tokens=4096, token_count: 1234",
    'next_page_token: "CAUQAA1234abcd"',
    "secret: Uint8Array",
    "password_file: /run/secrets/db_password1",
    "password: /run/secrets/db1.txt",
    "/usr/local/secret/token1/file.txt",
    "class='sk-fading-circle-animation-delay-2'",
    "http://localhost:8000/@scope/name",
    "https://ann@example.com:8080/x",
    "bearer authentication-mechanisms",
    "basic functionality of the token bucket",
    "import secrets; secrets.token_hex(8)",
    "PASSWORD=${DB_PASSWORD}",
    "password: <your password>",
    'api_key = os.environ["OPENAI_API_KEY"]',
    "the task-force-of-2024-and-everybody-in-it",
    "密码是用户自己设置的，不能为空",
    "密码：8位以上的字母和数字",
    "パスワードは英数字8文字以上です",
    "パスワードは「英数字8文字以上」です",
    "def check_pk_test_initialization(): ...",
    "the password is incorrect, the token is invalid_grant",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAK\n-----END PUBLIC KEY-----",
    "a file begins with -----BEGIN PRIVATE KEY----- and ends where the key does.",
]


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, keys in KEYS.items() for key in keys])
@pytest.mark.parametrize("around", ["{}", "the key is {}, use it", '{{"key": "{}"}}', "KEY={}\n", "钥匙{}。"])
def test_keys_are_known_by_their_shape(kind: str, key: str, around: str) -> None:
    redacted = REDACTOR.text(around.format(key))
    assert key not in redacted
    assert redacted == around.format(PLACEHOLDER.search(redacted).group())  # type: ignore[union-attr]
    assert kind in redacted


@pytest.mark.parametrize("key", [KEYS[kind][0] for kind in KEYS if kind != "private-key"])
@pytest.mark.parametrize(
    "around",
    [
        "keys/{}.txt",
        "https://host/{}/x",
        "copy-{}.pem",
        '{{"content": "A=1\\n{}\\nB=2"}}',
        '{{"content": "a\\tkey\\u003d{}"}}',
        "https://host/?q=key%3D{}%26x",
    ],
)
def test_keys_are_known_in_names_of_files_in_addresses_and_behind_escapes(key: str, around: str) -> None:
    assert key not in REDACTOR.text(around.format(key))


def test_names_of_fields_may_be_secrets() -> None:
    key = KEYS["github-token"][0]
    assert REDACTOR.value({"env": {key: 1}}) == {"env": {REDACTOR.text(key): 1}}


@pytest.mark.parametrize(("text", "secret"), IN_CONTEXT)
def test_values_are_known_by_what_stands_before_them(text: str, secret: str) -> None:
    redacted = REDACTOR.text(text.format(secret))
    assert secret not in redacted
    placeholder = PLACEHOLDER.search(redacted)
    assert placeholder
    assert redacted == text.format(placeholder.group())


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_base64_of_images_stays() -> None:
    picture = random.Random(7).randbytes(400_000)
    text = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    assert REDACTOR.text(text) == text


def test_a_private_key_that_was_cut_off_is_one() -> None:
    cut = PEM.format(body=BODY)[:400]
    assert REDACTOR.text(f"{cut} … the rest is left out").endswith(" … the rest is left out")
    assert BODY.splitlines()[2] not in REDACTOR.text(cut)


def test_the_same_secret_has_the_same_placeholder_wherever_it_stands() -> None:
    text = REDACTOR.text("password=Tr0ub4dor_3x and https://ann:Tr0ub4dor_3x@host and password: Tr0ub4dor_3y")
    first, second, third = PLACEHOLDER.findall(text)
    assert first == second != third


def test_a_placeholder_does_not_tell_without_the_key_of_the_installation() -> None:
    key = KEYS["github-token"][0]
    digests = {Redactor(key=bytes([number])).text(key) for number in range(3)}
    assert len(digests) == 3
    assert hashlib.sha256(key.encode()).hexdigest()[:6] not in REDACTOR.text(key)
    assert Redactor().text(key) == "[secret:github-token]"


def test_values_inside_values_are_found_by_their_keys() -> None:
    value = {"args": [{"password": "hunter22", "user": "ann", "n": 3}], "text": KEYS["jwt"][0]}
    redacted = REDACTOR.value(value)
    assert redacted["args"][0]["password"].startswith("[secret:credential:")
    assert redacted["args"][0] | {"password": ""} == {"password": "", "user": "ann", "n": 3}
    assert redacted["text"].startswith("[secret:jwt:")
    assert value["text"] == KEYS["jwt"][0]


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ({"password": 'hun"ter22!'}, 'hun"ter22!'),
        ({"password": 'hun\\ter22"x'}, 'hun\\ter22"x'),
        ({"headers": {"x-api-key": ["hunT3r9xQzz81K", "hunT3r9xQzz81L"]}}, "hunT3r9xQzz81L"),
        ({"env": [{"name": "DB_PASSWORD", "value": "hunT3r!9xQ"}]}, "hunT3r!9xQ"),
        ({"variables": [{"key": "API_TOKEN", "value": "hunT3r9xQzz81K"}]}, "hunT3r9xQzz81K"),
    ],
)
def test_values_are_found_by_their_keys_however_they_are_written(value: object, secret: str) -> None:
    redacted = repr(REDACTOR.value(value))
    assert repr(secret)[1:-1] not in redacted and "[secret:credential:" in redacted


def test_of_values_with_quotes_that_are_no_secrets_every_sign_stays() -> None:
    value = {
        "args": [{"text": 'say "hello" \\ twice', "name": "title", "value": 'the "new" one'}],
        "token": ["a", 3],
    }
    assert REDACTOR.value(value) == value


@given(
    st.lists(
        st.sampled_from(
            [key for keys in KEYS.values() for key in keys]
            + [text.format(secret) for text, secret in IN_CONTEXT]
            + NO_SECRETS
            + ["[secret:jwt:a1b2c3]", "[secret:", "]", "token", "password=", "İ", "\n", '"']
        )
        | st.text(max_size=8)
    )
)
def test_redacting_twice_changes_nothing(parts: list[str]) -> None:
    once = REDACTOR.text(" ".join(parts))
    assert REDACTOR.text(once) == once


@given(st.lists(st.sampled_from(["ß", "İ", "ſ", "K", "ŉ", " ", KEYS["github-token"][0]])))
def test_letters_that_change_their_length_move_nothing(parts: list[str]) -> None:
    key = KEYS["github-token"][0]
    text = " ".join(parts)
    assert key not in REDACTOR.text(text)
    assert PLACEHOLDER.sub(key, REDACTOR.text(text)) == text


HOSTILE = [
    "sk-",
    "://",
    "://a:",
    "password=",
    "password='a",
    "token:",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n" + "A" * 64,
    "eyJa.",
    "eyJaaaaaaaa.bbbbbbbb",
    "bearer ",
    "authorization: bearer ",
    "basic AAAA",
    "--password ",
    "secret_access_key",
    '_token\\"',
    "a",
    "key ",
    "pass ",
    "private key ",
    "PASSWORD 'abc' ",
    "<password>abcd</",
    " -p aaa",
    "mysql -pab1 ",
    "curl -u a:b ",
    "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n",
    "A" * 64 + "\n-----END PRIVATE KEY-----\n",
    "kind: Secret\ndata:\n  a: b\n",
    "cookie: a=b; ",
    "$2y$10$",
    ".aaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb",
    "[secret:jwt:a1b2c3] password=Abc12345x ",
]
WORST = [
    "-----BEGIN PRIVATE KEY-----",
    "PASSWORD 'abc' ",
    "sshpass -p ",
    "password: ",
    "://a:b@",
    "[secret:jwt:a1b2c3] x",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_length_of_the_text_and_no_faster(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * (length // len(piece) + 1))[:length]
        best = []
        for _ in range(3):
            started = time.process_time()
            REDACTOR.text(text)
            best.append(time.process_time() - started)
        return min(best)

    short = seconds(20_000)
    # Eight times the text: sixty-four times the time if it were quadratic.
    assert seconds(160_000) < 24 * max(short, 0.0005)


@pytest.mark.parametrize("piece", WORST)
def test_a_million_hostile_characters_take_a_second_or_so(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    REDACTOR.text(text)
    # On an idle machine 0.7 seconds at the most.
    assert time.process_time() - started < 3


def test_what_a_log_cuts_off_leaves_less_than_half_of_a_key() -> None:
    whole = [
        "AKIA" + "Q7ZR0LX2VN8KD5TB",
        "AIza" + "SyD3x7Kq2LmZYw0Rt5Vb8Nc1Td8Jh3uYw0R",
        "dop_v1_" + "3b1f8c0d" * 8,
    ]
    for key in whole:
        for length in range(4 + len(key) // 2, len(key)):
            for cut in (key[:length], f"{key[:length]}…", f"the key is {key[:length]}..."):
                assert key[:length] not in REDACTOR.text(cut), cut


@given(st.integers(min_value=0, max_value=1_200), st.integers(min_value=0, max_value=1_200))
def test_no_line_of_a_private_key_is_left_wherever_the_text_is_cut(first: int, second: int) -> None:
    whole = f"before\n{PEM.format(body=BODY)}\nafter"
    start, end = sorted((first, second))
    piece = REDACTOR.text(whole[start:end])
    kept_mark = whole.index("-----BEGIN") >= start or whole.index("-----END") + 30 <= end
    if kept_mark and "PRIVATE KEY" in whole[start:end]:
        assert not any(line in piece for line in BODY.splitlines())


@given(
    st.lists(st.sampled_from([secret for _, secret in IN_CONTEXT if len(secret) > 7]), min_size=1, max_size=6)
)
def test_the_same_secrets_have_the_same_placeholders_in_any_text(secrets: list[str]) -> None:
    text = "\n".join(f"password: '{secret}'" for secret in secrets)
    placeholders = PLACEHOLDER.findall(REDACTOR.text(text))
    alone = [PLACEHOLDER.findall(REDACTOR.text(f"DB_PASSWORD='{secret}'")) for secret in secrets]
    assert [[one] for one in placeholders] == alone


def test_a_kind_of_ones_own_comes_first_and_may_name_the_part_that_is_secret() -> None:
    own = Shape("acme", re.compile(r"ACME-(?P<secret>[0-9]{4,64})"))
    redactor = Redactor((own, *SHAPES), b"k")
    assert redactor.text("take ACME-123456 now").startswith("take ACME-[secret:acme:")
    assert "[secret:acme:" in redactor.text("password='ACME-123456'")


def test_a_kind_of_ones_own_is_found_across_the_windows_of_a_long_text() -> None:
    redactor = Redactor((Shape("acme", re.compile(r"ACME-[0-9]{4,64}")),), b"k")
    for before in range(4_050, 4_110, 3):
        text = "x" * before + "ACME-" + "7" * 40 + "y" * 9_000
        assert "ACME" not in redactor.text(text)
        assert redactor.text(text).endswith("y" * 9_000)
