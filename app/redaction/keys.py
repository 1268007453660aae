"""Keys that are known by themselves: what a provider lets them begin with."""

from __future__ import annotations

import re

from app.redaction.judgement import is_mixed_key, is_random_key
from app.redaction.shape import Accept, Cued, Kind, Shape

# A key does not begin or end within a longer word. Line breaks and signs may stand before it as escapes.
_ESCAPE = r"(?<=\\[nrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
_BOUNDS = (rf"(?:(?<![A-Za-z0-9])|{_ESCAPE})", r"(?![A-Za-z0-9])")
# For kinds that a name in code may look like a part of.
_NAME_BOUNDS = (rf"(?:(?<![A-Za-z0-9_])|{_ESCAPE})", r"(?![A-Za-z0-9_])")
_FIXED = re.compile(r"(\[[^\]]+\])\{(\d+)\}$")
# A log that cuts its lines leaves the beginning of a key.
_CUT = r"(?=…|\.\.\.|\\n|\s*\Z)"
_JWT = (
    r"eyJ[A-Za-z0-9_-]{8,8000}+\.(?:[A-Za-z0-9_-]{8,20000}+(?:\.[A-Za-z0-9_-]{0,8000}+)?"
    r"|\.[A-Za-z0-9_-]{8,200}+\.[A-Za-z0-9_-]{8,20000}+(?:\.[A-Za-z0-9_-]{0,64}+)?)(?:\.[A-Za-z0-9_-]{8,20000}+){0,2}"
)

_DISCORD = (
    (
        re.compile(
            r"\.(?:(?<=[MNO][A-Za-z0-9_-]{23}\.)|(?<=[MNO][A-Za-z0-9_-]{25}\.))"
            r"(?P<secret>[\w-]{6}\.[\w-]{27,45}+)",
            re.ASCII,
        ),
        is_mixed_key,
    ),
)


def _key(
    name: str, *patterns: str, accept: Accept | None = None, bounds: tuple[str, str] = _BOUNDS, lead: int = 0
) -> list[Shape]:
    """One shape for each pattern; a pattern begins with what all of its keys begin with, up to the first group. Of a
    key of one length half is enough where the text ends. ``lead``: so many other characters stand before."""
    shapes = []
    for pattern in patterns:
        head = rf"[\w~.-]{{{lead}}}" if lead else ""
        compiled = re.compile(f"{bounds[0]}{head}{_FIXED.sub(_shorter, pattern)}{bounds[1]}", re.ASCII)
        hint = re.split(r"[\[(\\]", pattern, maxsplit=1)[0].lower()
        judged = {"accept": accept} if accept else {}
        shapes.append(Shape(name, compiled, (hint,), lead=lead, in_words=True, **judged))
    return shapes


def _shorter(match: re.Match[str]) -> str:
    letters, length = match[1], int(match[2])
    return f"(?:{letters}{{{length}}}+|{letters}{{{length // 2},{length - 1}}}+{_CUT})"


KEYS: tuple[Kind, ...] = (
    *_key("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{16,250}+"),
    *_key("openrouter-key", r"sk-or-v1-[A-Za-z0-9]{20,128}+"),
    *_key("langfuse-key", r"sk-lf-[0-9a-f-]{36}", r"pk-lf-[0-9a-f-]{36}"),
    *_key("openai-key", r"sk-[A-Za-z0-9_-]{16,250}+", accept=is_random_key),
    *_key(
        "stripe-key",
        *(rf"{kind}_{m}_[A-Za-z0-9]{{10,250}}+" for kind in ("sk", "rk", "pk") for m in ("live", "test")),
        r"whsec_[A-Za-z0-9+/=]{24,128}+",
        accept=is_mixed_key,
        bounds=_NAME_BOUNDS,
    ),
    *_key("elevenlabs-key", r"sk_[0-9a-f]{48}", bounds=_NAME_BOUNDS),
    *_key("aws-access-key-id", *(rf"{kind}[A-Z0-9]{{16}}" for kind in ("AKIA", "ASIA", "ABIA", "ACCA"))),
    *_key("google-api-key", r"AIza[A-Za-z0-9_-]{35}"),
    *_key("google-oauth-token", r"ya29\.[A-Za-z0-9_-]{20,2000}+", r"GOCSPX-[A-Za-z0-9_-]{20,64}+"),
    *_key("google-oauth-token", r"1//0[A-Za-z0-9_-]{40,512}+", accept=is_mixed_key),
    *_key("github-token", *(rf"gh{kind}_[A-Za-z0-9]{{20,255}}+" for kind in "pousr")),
    *_key("github-token", r"github_pat_[A-Za-z0-9_]{22,255}+"),
    *_key(
        "gitlab-token",
        *(
            rf"{kind}-[A-Za-z0-9_-]{{20,255}}+(?:\.[a-z0-9]{{2}}\.[a-z0-9]{{9}})?"
            for kind in (
                "glpat",
                "gldt",
                "glrt",
                "glrtr",
                "glptt",
                "glcbt",
                "glft",
                "glffct",
                "gloas",
                "glsoat",
                "glagent",
            )
        ),
        r"glimt-[A-Za-z0-9_-]{20,255}+",
        r"GR1348941[A-Za-z0-9_-]{20,64}+",
    ),
    *_key("slack-token", *(rf"xox{kind}-[A-Za-z0-9-]{{10,250}}+" for kind in "abcdeoprs")),
    *_key("slack-token", r"xoxe\.xox[bp]-[A-Za-z0-9-]{10,250}+", r"xapp-[A-Za-z0-9-]{10,250}+"),
    *_key("huggingface-token", r"hf_[A-Za-z0-9]{20,128}+", r"api_org_[A-Za-z0-9]{34}"),
    *_key("npm-token", r"npm_[A-Za-z0-9]{20,128}+"),
    *_key("pypi-token", r"pypi-[A-Za-z0-9_-]{50,1000}+"),
    *_key("rubygems-key", r"rubygems_[0-9a-f]{48}"),
    *_key("nuget-key", r"oy2[a-z0-9]{43}"),
    *_key("sendgrid-key", r"SG\.[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,128}+"),
    *_key("mailgun-key", r"key-[0-9a-f]{32}"),
    *_key("brevo-key", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{8,32}+"),
    *_key("twilio-key", r"SK[0-9a-f]{32}"),
    *_key("groq-key", r"gsk_[A-Za-z0-9]{20,128}+"),
    *_key("xai-key", r"xai-[A-Za-z0-9]{20,128}+"),
    *_key("langsmith-key", r"lsv2_[a-z]{2}_[A-Za-z0-9_]{20,128}+"),
    *_key("pinecone-key", r"pcsk_[A-Za-z0-9_]{40,128}+"),
    *_key("databricks-token", r"dapi[0-9a-f]{32}(?:-\d)?", r"dose[0-9a-f]{32}"),
    *_key("digitalocean-token", *(rf"do{kind}_v1_[0-9a-f]{{64}}" for kind in "opr")),
    *_key("heroku-key", r"HRKU-[A-Za-z0-9_-]{36,80}+"),
    *_key("shopify-token", *(rf"shp{kind}_[0-9a-fA-F]{{32}}" for kind in ("at", "ca", "pa", "ss"))),
    *_key("docker-token", r"dckr_pat_[A-Za-z0-9_-]{20,128}+", r"dckr_oat_[A-Za-z0-9_-]{20,128}+"),
    *_key("vault-token", r"hvs\.[A-Za-z0-9_-]{20,256}+", r"hvb\.[A-Za-z0-9_-]{20,256}+"),
    *_key("terraform-token", r".atlasv1.[A-Za-z0-9_=-]{60,80}+", lead=14),
    *_key("pulumi-token", r"pul-[0-9a-f]{40}"),
    *_key("perplexity-key", r"pplx-[A-Za-z0-9]{20,128}+"),
    *_key("replicate-token", r"r8_[A-Za-z0-9]{30,64}+"),
    *_key("grafana-token", r"glsa_[A-Za-z0-9_]{32,64}+", r"glc_[A-Za-z0-9+/=]{32,400}+"),
    *_key("sentry-token", r"sntrys_[A-Za-z0-9+/=_-]{40,400}+", r"sntryu_[0-9a-f]{64}"),
    *_key("newrelic-key", r"NRAK-[A-Z0-9]{27}"),
    *_key("dynatrace-token", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    *_key("notion-token", r"ntn_[A-Za-z0-9]{30,128}+"),
    *_key("linear-key", r"lin_api_[A-Za-z0-9]{30,64}+"),
    *_key("atlassian-token", r"ATATT3[A-Za-z0-9_=-]{60,400}+", r"ATBB[A-Za-z0-9]{32}"),
    *_key("figma-token", r"figd_[A-Za-z0-9_-]{30,80}+"),
    *_key("postman-key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    *_key("supabase-key", r"sbp_[0-9a-f]{40}", r"sb_secret_[A-Za-z0-9_-]{20,64}+"),
    *_key("planetscale-token", r"pscale_tkn_[A-Za-z0-9_.-]{32,64}+", r"pscale_pw_[A-Za-z0-9_.-]{32,64}+"),
    *_key("neon-key", r"npg_[A-Za-z0-9]{12,64}+", r"napi_[a-z0-9]{40,80}+", accept=is_mixed_key),
    *_key("netlify-token", r"nfp_[A-Za-z0-9]{36,64}+"),
    *_key("tailscale-key", r"tskey-[a-z]{3,8}-[A-Za-z0-9]{8,24}+-[A-Za-z0-9]{16,64}+"),
    *_key("doppler-token", r"dp\.(?:pt|st|sa|ct|scim|audit)\.[A-Za-z0-9_.-]{40,64}+"),
    *_key("sonar-token", r"squ_[0-9a-f]{40}", r"sqp_[0-9a-f]{40}", r"sqa_[0-9a-f]{40}"),
    *_key("circleci-token", r"CCIPAT_[A-Za-z0-9]{20,30}_[0-9a-f]{40}"),
    *_key("onepassword-token", r"ops_eyJ[A-Za-z0-9_=-]{100,2000}+"),
    *_key("azure-client-secret", r"Q~[A-Za-z0-9_~.-]{31,34}+", lead=4),
    *_key("tavily-key", r"tvly-[A-Za-z0-9_-]{20,128}+", accept=is_random_key),
    *_key("age-secret-key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    *_key("threadkeep-key", r"tk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}"),
    *_key("jwt", _JWT),
    # Behind a bot's number, which is no secret; anybody sees it.
    Shape(
        "telegram-token",
        re.compile(r":(?<=[0-9]{8}:)(?P<secret>AA[A-Za-z0-9_-]{32,34}+)(?![A-Za-z0-9])"),
        (":aa",),
        in_words=True,
    ),
    # Behind a bot's id in base64, which is no secret either.
    Cued("discord-token", re.compile(r"\.[a-z0-9_-]{6}\.(?=[a-z0-9_-]{27})"), lambda text, at: _DISCORD),
    Shape(
        "discord-webhook",
        re.compile(r"/api/webhooks/[0-9]{15,22}/(?P<secret>[A-Za-z0-9_-]{40,120}+)"),
        ("/api/webhooks/",),
        in_words=True,
    ),
    Shape(
        "slack-webhook",
        re.compile(r"hooks\.slack\.com/(?P<secret>(?:services|workflows|triggers)/[A-Za-z0-9/]{20,120}+)"),
        ("hooks.slack.com/",),
        in_words=True,
    ),
    Shape(
        "teams-webhook",
        re.compile(r"webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{60,300}+)", re.ASCII),
        ("webhook.office.com/",),
        in_words=True,
    ),
    Shape(
        "mailchimp-key",
        re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{32}-us[0-9]{1,2}(?![0-9A-Za-z])"),
        ("-us",),
        lead=32,
        in_words=True,
    ),
    # Beside its id, as in the file that one downloads.
    *(
        Shape(
            "aws-secret-key",
            re.compile(
                rf"{kind}[A-Z0-9]{{16}}[\"']?\s{{0,3}}[,;:|\t ]\s{{0,3}}[\"']?"
                r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
            ),
            (kind.lower(),),
            in_words=True,
        )
        for kind in ("AKIA", "ASIA")
    ),
    Shape(
        "password-hash",
        re.compile(
            r"\$(?:(?:2[abxy]|[156]|y|gy|7|apr1|sha1|md5|scrypt|bcrypt(?:-sha256)?|argon2(?:id|i|d)|pbkdf2(?:-sha\d{1,3})?)\$)"
            r"[./A-Za-z0-9$=,+-]{20,250}+"
        ),
        (
            "$1$",
            "$2",
            "$5$",
            "$6$",
            "$7$",
            "$y$",
            "$gy$",
            "$apr1$",
            "$sha1$",
            "$scrypt$",
            "$argon2",
            "$pbkdf2",
            "$bcrypt",
        ),
        in_words=True,
    ),
    Shape(
        "password-hash",
        re.compile(
            r"(?:pbkdf2_sha\d{1,3}|bcrypt_sha256|scrypt|argon2)\$[./A-Za-z0-9$=,+-]{40,250}+", re.ASCII
        ),
        ("pbkdf2_sha", "bcrypt_sha256$", "scrypt$", "argon2$"),
        in_words=True,
    ),
    Shape(
        "password-hash",
        re.compile(r"\{(?:SSHA|SHA|SMD5|MD5)(?:\d{3})?\}[A-Za-z0-9+/]{22,200}+={0,2}"),
        ("{sha", "{ssha", "{smd5", "{md5"),
    ),
)
