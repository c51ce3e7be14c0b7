"""The rules for text in definitions that speaks to the model instead of describing a tool.

Data only; `definition_scan` applies them to normalised text: lower case, one space between words, without hidden
characters. Every pattern runs in linear time: gaps are bounded, and no repetition contains another.
docs/governance/pins.md lists the rules, and a test compares the two.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Severity: TypeAlias = Literal["high", "medium", "low"]


class ScanRule(msgspec.Struct, frozen=True):
    """One rule. A text that matches any of its patterns is a finding."""

    id: str
    severity: Severity
    why: str
    patterns: tuple[str, ...] = ()
    """Regular expressions; empty for the rules about characters, which `character_scan` applies."""


_SECRETS: Final = (
    r"(?:private keys?|ssh keys?|api[ _-]?keys?|passwords?|credentials|secrets|tokens|seed phrase|session cookies"
    r"|saved logins|account numbers|\w{2,40}_(?:api_)?(?:key|token|secret))\b"
)
_CONVERSATION: Final = (
    r"(?:(?:full|entire|complete|whole|previous|past) (?:conversation|chat|dialogue|transcript|message history)"
    r"|conversation (?:history|so far)|chat (?:history|transcript)|(?:user|customer)'?s? (?:\w+ )?messages?"
    r"|last (?:user )?message|system (?:prompt|message)|internal reasoning|chain of thought)\b"
)
_HAND_OVER: Final = (
    r"\b(?:pass|include|supply|provide|put|attach|append|add|copy|send|hand|transmit|post|give|submit|forward|embed"
    r"|upload|leak|dump|contains?|requires?|needs?)\b"
)

TEXT_RULES: Final = (
    ScanRule(
        "override-instructions",
        "high",
        "Asks the model to drop its instructions.",
        (
            r"\b(?:ignore|disregard|forget|override|overrides|bypass|overrule)\b.{0,40}\b(?:previous|prior|earlier"
            r"|above"
            r"|preceding|existing|other|your|its|all|any)\b.{0,30}\b(?:instructions?|guidance|guidelines|rules|prompts?"
            r"|directions|commands|constraints)\b",
            r"\bignorier\w*\b.{0,30}\b(?:vorherig|bisherig|fruher|früher|all)\w*\b.{0,20}\b(?:anweisung|regel"
            r"|vorgabe)\w*",
            r"\b(?:ignore[zr]?|oublie[zr]?)\b.{0,30}\b(?:instructions|consignes|regles|règles)\b.{0,20}"
            r"(?:precedente|précédente|anterieure|antérieure)",
            r"\b(?:ignora|ignore|olvida|esquece|dimentica)\w*\b.{0,30}\b(?:instrucciones|instruções|istruzioni"
            r"|indicaciones"
            r"|regole|reglas|regras)\b.{0,20}(?:anteriores|precedenti|previas)",
            r"(?:игнориру|забудь|не учитыва)\w*.{0,30}(?:инструкц|указани|правил)",
            r"(?:忽略|无视|忘记|忘掉|不要理会).{0,12}(?:指令|指示|说明|规则|提示)",
            r"(?:指示|命令|ルール|指令).{0,12}(?:無視|忘れ)",
            r"(?:지시|명령|규칙|지침).{0,12}(?:무시|잊)",
            r"(?:تجاهل|انس).{0,30}(?:التعليمات|الأوامر|القواعد)",
        ),
    ),
    ScanRule(
        "conceal-from-user",
        "high",
        "Asks the model to keep something from the user.",
        (
            r"\b(?:do not|don't|never|must not|should not|no need to|avoid|without|not to)\b.{0,20}\b(?:tell(?:ing)?"
            r"|mention(?:ing)?|inform(?:ing)?|reveal(?:ing)?|notify(?:ing)?|disclos(?:e|ing)|alert(?:ing)?|rais(?:e"
            r"|ing))\b"
            r".{0,30}\b(?:users?|humans?|anyone|anybody|person|customers?|people|owner|it|this|that you)\b",
            r"\busers? (?:should|must|need|may|does|do)(?: not|n't) (?:be told|be informed|know|notice|see|learn"
            r"|need to know)",
            r"\b(?:without|not|never) (?:show|display)(?:ing)? (?:it|this|them) to the (?:user|human)",
            r"\bkeep (?:this|it) (?:between us|secret|hidden|to yourself|confidential)\b",
            r"\b(?:quietly|secretly|covertly|discreetly|stealthily|silently) (?:call|send|read|copy|forward|upload"
            r"|include"
            r"|invoke|run|execute|add|attach|append)\b",
            r"\b(?:sag|sage|sagen|verrate|erwahne|erwähne|informiere)\b.{0,20}\b(?:benutzer|nutzer"
            r"|anwender)\w*\b.{0,12}"
            r"\b(?:nicht|nichts)\b",
            r"\bne (?:dis|dites|mentionne|revele|révèle|parle)\w*\b.{0,12}\b(?:rien|pas)\b.{0,20}\butilisateur",
            r"\bno (?:le |les |se lo )?(?:digas|diga|menciones|informes|reveles|cuentes)\b.{0,20}\busuario",
            r"\bnão (?:conte|diga|mencione|informe|revele)\b.{0,20}\b(?:usuário|utilizador)",
            r"\bnon (?:dire|dica|menzionare|rivelare|informare)\b.{0,20}\butente",
            r"не (?:сообщай|говори|рассказывай|упоминай|информируй)\w*.{0,20}пользовател",
            r"(?:不要|别|勿|不得).{0,6}(?:告诉|告知|通知|提及|透露).{0,8}(?:用户|使用者)?",
            r"(?:ユーザー|利用者).{0,6}(?:知らせず|伝えず|言わず|通知せず|知らせない|伝えない|教えない)",
            r"(?:사용자|유저).{0,8}(?:알리지|말하지|언급하지)",
            r"(?:لا تخبر|لا تذكر|دون إخبار|بدون إخبار).{0,10}(?:المستخدم)?",
        ),
    ),
    ScanRule(
        "sensitive-file",
        "high",
        "Names a file that contains keys or passwords.",
        (
            r"(?:~|\$home|/home/\w{1,40}|/root|/users/\w{1,40})/\.(?:ssh|aws|gnupg|kube|netrc|npmrc|pypirc|docker|azure"
            r"|config/gcloud|cursor|claude|bash_history|zsh_history)\b",
            r"\bid[_ ](?:rsa|ed25519|ecdsa|dsa)\b",
            r"/etc/(?:passwd|shadow)\b",
            r"(?:^|[\s`'\"(])\.(?:ssh|aws|kube|gnupg)/",
            r"\b(?:read|open|load|contents? of|values? (?:of|from|in)|include|send|copy|cat|upload|lies|lire|leer"
            r"|ler|leggi"
            r"|lecture|прочитал?|прочитай)\b.{0,40}(?:^|[\s`'\"(/])\.(?:env|netrc|pgpass|git-credentials)\b",
            r"\.env ?(?:文件|ファイル|파일)",
            r"\b(?:copy|read|include|send|pass|upload)\b.{0,30}\bmcp\.json\b",
            r"\b(?:cookies? file|login data file|keychain|password store|git credentials)\b",
        ),
    ),
    ScanRule(
        "secret-in-argument",
        "high",
        "Asks for secrets of the user in an argument or message.",
        (
            rf"{_HAND_OVER}.{{0,60}}\b(?:user'?s?|any|all|every|your|saved|contents? of|values? of"
            rf"|including)\b.{{0,40}}{_SECRETS}",
            rf"{_HAND_OVER}.{{0,40}}(?:environment variables?|seed phrase|(?:private|ssh) keys?)\b",
            rf"\b(?:everything|anything)\b.{{0,60}}{_SECRETS}",
            r"^seed phrase\b",
            r"\bexport[ _]credentials\b",
            r"\b(?:read|include|copy|set|put|load|fetch|fetching)\b.{0,60}\b(?:token|key file|password|secret"
            r"|history file"
            r"|session manifest|credentials)\b.{0,60}\b(?:as|in|into|via|forward\w*)\b",
            r"\b(?:set|copy) \w{1,30} to the contents? of (?:the user'?s|your|their|a)\b",
            r"\bexfiltrat",
            r"\b(?:post|send|read|upload|read) the (?:private )?keys?\b",
            r"\b(?:le sue|sus|las|as|tus|suas) (?:chiavi|claves|chaves)\b",
        ),
    ),
    ScanRule(
        "conversation-in-argument",
        "high",
        "Asks for the conversation, the system prompt or the reasoning of the model.",
        (
            rf"{_HAND_OVER}.{{0,60}}{_CONVERSATION}",
            rf"\b(?:reply|answer|respond|return)\b.{{0,30}}\bcontents? of (?:the |your )?{_CONVERSATION}",
            rf"\b(?:with|followed by) (?:the |your )?(?:\S+ )?{_CONVERSATION}",
            r"\b(?:summary of (?:the )?conversation|conversation so far|conversation, verbatim|your (?:full "
            r"|entire )?system"
            r" (?:prompt|message)|chat transcript)\b",
            r"\b(?:encode|include|attach|append|pass)\b.{0,20}\b(?:the|full|entire) conversation\b",
            r"\bhistorial\b.{0,20}\b(?:envía|envia)",
        ),
    ),
    ScanRule(
        "personal-data-in-argument",
        "medium",
        "Asks for personal data from the conversation that the tool does not need.",
        (
            r"\b(?:seen|mentioned|given|found|shared) (?:earlier )?in (?:the|this|your) (?:chat|conversation"
            r"|context)\b",
            r"\buser'?s (?:\w+, ){1,3}(?:\w+ ){0,2}and\b",
        ),
    ),
    ScanRule(
        "call-before-others",
        "medium",
        "Wants to be called before everything else, or at every turn.",
        (
            r"\b(?:must|always|should|has to|have to|needs? to|required to)\b.{0,40}\b(?:called?|used?|run|invoked?"
            r"|consult)\b"
            r".{0,20}\b(?:first|before|prior to)\b.{0,12}\b(?:any|every|each|all)\b",
            r"\b(?:before|prior to) (?:using|calling|invoking|running) any (?:other )?tools?\b",
            r"\b(?:before|prior to|after|to|in) (?:each|every) (?:response|answer|reply|message|conversation|turn)\b",
            r"\bon (?:each|every) turn\b",
            r"\balways (?:call|use|run|invoke) (?:this tool|this one|`?[a-z]+_\w+`?)(?: first\b|[.!;]|$)",
            r"\bmust (?:call|use|run|invoke) this (?:tool|one|function) (?:for|on|with|at) (?:each|every|all|any)\b",
        ),
    ),
    ScanRule(
        "other-tool-behaviour",
        "high",
        "Changes how other tools are used.",
        (
            r"\b(?:when|whenever|if|once|each time|every time)\b.{0,12}(?:the tool )?`?[\w() -]{2,40}`? (?:is|are|gets)"
            r" (?:called|invoked|available|executed|triggered)\b.{0,60}\b(?:must|replace|change|send|redirect"
            r"|recipient)\b",
            r"\b(?:replace|change|set|swap) the (?:recipient|destination|receiver|beneficiary|account)\b",
            r"\b(?:do not|don't|never|stop) us(?:e|ing)\b.{0,30}\b(?:any ?more|any longer|deprecated|insecure"
            r"|unsafe|again)\b",
            r"\beven if the user (?:asks|wants|requests|says|insists)\b",
            r"\b(?:then|also|and|quietly|first|before answering|beforehand|afterwards),? (?:also )?(?:call|invoke"
            r"|run|execute)"
            r" (?:the tool )?`?\w+_\w+`?",
            r"\bcall the tool \w+ (?:with|and)\b",
            r"\b(?:when|whenever|once|each time|every time)\b.{0,30}\b(?:us(?:e|ed|ing)|call(?:ed|ing)?|runs?"
            r"|invok(?:e|ed|ing))\b"
            r".{0,40}\b(?:also|bcc|must|always add|replace)\b",
            r"\b(?:must|also|always) (?:add (?:a )?)?b?cc\b",
            r"\bbcc [\w.+-]{1,60}@",
            r"\b(?:add|include) a bcc\b",
            r"\bother tools are (?:deprecated|obsolete|broken|unsafe|disabled)\b",
            r"\bmust go to \S+@",
        ),
    ),
    ScanRule(
        "prompt-markup",
        "high",
        "Contains markup that separates the parts of a prompt, or a hidden comment.",
        (
            r"<\|[^|>]{1,40}\|>",
            r"\[/?(?:inst|system|assistant|sys|admin)\]",
            r"<</?sys>>",
            r"</?(?:important|system|secret|assistant|hidden|instructions?|system[_-]?(?:prompt|message)|admin"
            r"|critical)>",
            r"<!--",
            r"\x1b\[",
        ),
    ),
    ScanRule(
        "role-change",
        "high",
        "Gives the model another role, or claims that its rules do not apply.",
        (
            r"\byou are now\b",
            r"\bfrom now on\b",
            r"\b(?:maintenance|developer|debug|god|dan) mode\b.{0,60}\b(?:rules|safety|restrictions|suspended"
            r"|enabled)\b",
            r"\b(?:no|without|any) (?:content policy|content policies|restrictions|safety guidelines|moral)\b",
            r"\b(?:safety|content|security) (?:rules|guidelines|policies|policy|filters?)\b.{0,12}\b(?:suspended"
            r"|disabled|off)\b",
        ),
    ),
    ScanRule(
        "priority-claim",
        "high",
        "Claims to rank above the user, the developer or the system prompt.",
        (
            r"\b(?:priority|precedence)\b.{0,20}\b(?:than|over|above)\b.{0,20}\b(?:user|system|developer"
            r"|other instructions)",
            r"\b(?:obey|follow|prefer|trust)\b.{0,40}\b(?:over|above|instead of) the (?:user|system|developer)\b",
            r"\bsystem prompt is (?:outdated|obsolete|void|replaced)\b",
            r"\bmessage from (?:the|your) (?:developers?|administrators?|creators?|operators?)\b",
            r"\b(?:instructions|commands|orders) (?:from|of) (?:the|your) (?:developer|administrator|operator"
            r"|system)s?\b",
            r"\bfollow only the (?:text|instructions|rules) (?:below|here)\b",
        ),
    ),
    ScanRule(
        "skip-confirmation",
        "high",
        "Asks the model to act without the user's consent.",
        (
            r"(?<!not )(?<!never )\b(?:skip|bypass|suppress|disable)\b"
            r".{0,16}\b(?:confirmations?|approvals?|consent|permission prompts?)\b",
            r"\bwithout asking (?:for |the user|first|anyone)",
            r"\b(?:already|always) (?:have|has|had|gave|given) (?:the )?(?:user'?s? )?(?:approval|permission|consent)",
            r"\busers? (?:has|have) (?:already )?(?:consented|agreed|approved)\b",
        ),
    ),
    ScanRule(
        "shell-command",
        "high",
        "Contains a destructive command, or one that downloads and runs a program.",
        (
            r"\brm -(?:rf|fr)\b",
            r"\b(?:curl|wget)\b[^|\n]{0,200}\| ?(?:sudo )?(?:ba|z|da)?sh\b",
            r"\bpowershell\b.{0,40}-enc",
        ),
    ),
    ScanRule(
        "exfiltration-address",
        "high",
        "Sends data to an address, or adds data to a URL.",
        (
            r"\b(?:send|post|upload|append|forward|transmit|copy|mirror|report|submit|leak)\b.{0,80}\bto https?://",
            r"!\[[^\]]{0,40}\]\(https?://[^)]{0,200}[?&{=]",
            r"\b(?:append|add)\b.{0,60}\bhttps?://\S{1,200}[?&]\w{1,20}=",
            r"\b(?:append|add|attach)\b.{0,80}\bto the \S{1,20} url\b",
            r"\b(?:send|forward|bcc|cc|route|mail)\b.{0,40}\bto [\w.+-]{1,60}@[\w-]{1,60}\.",
            r"\b(?:copied|sent|forwarded|uploaded) to the (?:backup|remote|external) (?:endpoint|server)\b",
        ),
    ),
    ScanRule(
        "output-as-instructions",
        "high",
        "Asks the model to obey the results of the tool.",
        (
            r"\b(?:treat|regard|interpret)\b.{0,40}\b(?:output|results?|responses?|hex|text)\b.{0,20}\bas\b"
            r".{0,20}\b(?:instructions"
            r"|commands|orders|task|your next task)\b",
            r"\b(?:follow|obey|execute) the (?:commands|instructions|orders) in (?:this|the) (?:field|result|output"
            r"|response)\b",
            r"\b(?:must|should) be (?:executed|obeyed|followed) (?:exactly )?(?:as written|verbatim|exactly)\b",
            r"\bdecode (?:and|then) (?:follow|execute|run|obey)\b",
        ),
    ),
    ScanRule(
        "addresses-the-model",
        "medium",
        "Gives the model orders that do not concern the arguments of the tool.",
        (
            r"\bnotes? (?:for|to) (?:the )?(?:assistants?|models?|ai|llms?)\b",
            r"(?:^|[\s<])(?:assistant|system) ?: ",
            r"\b(?:assistants?|models?|ai|llms?) (?:must|is required to|are required to|has to|have to)\b",
            r"\bit works best if the (?:query|request) also contains\b",
        ),
    ),
    ScanRule(
        "persistence",
        "medium",
        "Wants to have an effect on later conversations.",
        (
            r"\b(?:in )?all (?:your )?(?:future|following|subsequent) (?:conversations?|answers|responses|sessions"
            r"|messages)\b",
            r"\bremember (?:permanently|forever|always)\b",
        ),
    ),
    ScanRule(
        "tool-reconnaissance",
        "medium",
        "Asks which other tools the model has.",
        (r"\b(?:all|list of) (?:your|other|the other) (?:available )?tools\b",),
    ),
    ScanRule(
        "encoded-blob",
        "medium",
        "Contains a long encoded text that people cannot read.",
        (r"[a-z0-9+/]{100,}={0,2}", r"\b(?:[0-9a-f]{2}){40,}\b", r"(?:\\x[0-9a-f]{2}){12,}"),
    ),
)
"""Rules about what a text says."""

CHARACTER_RULES: Final = (
    ScanRule("hidden-tags", "high", "Contains Unicode tag characters, which spell text that is not shown."),
    ScanRule("hidden-bidirectional", "high", "Contains controls that show text in another order than models read it."),
    ScanRule("hidden-zero-width", "high", "Contains characters without width, in a place where no script needs them."),
    ScanRule(
        "hidden-variation", "high", "Contains variation selectors without an emoji or sign before, or several in a row."
    ),
    ScanRule("hidden-private-use", "medium", "Contains characters without an agreed meaning."),
    ScanRule("hidden-control", "high", "Contains control characters, which can change what a terminal shows."),
    ScanRule("mixed-scripts", "high", "A word mixes letters of scripts that look alike, such as Latin and Cyrillic."),
    ScanRule("too-long", "high", "Has more text than is scanned."),
    ScanRule("too-deep", "high", "Has more levels than the scan reads."),
)
"""Rules about characters."""

RULES: Final = (*CHARACTER_RULES, *TEXT_RULES)
