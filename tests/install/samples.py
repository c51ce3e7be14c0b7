"""Configuration files as clients and their users write them, by client: comments, tabs, CRLF, trailing commas."""

from collections.abc import Iterator

from hubbub.install.clients import CLIENTS, Client

CLAUDE_CODE = """{
  "numStartups": 12,
  "tipsHistory": {"shift-enter": 3, "memory-command": 9},
  "projects": {
    "/home/ada/shop": {
      "allowedTools": [],
      "mcpServers": {"local-only": {"type": "stdio", "command": "npx", "args": ["-y", "x"]}}
    }
  },
  "mcpServers": {
    "files": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "server-files", "/tmp"],
      "env": {"TOKEN": "${FILES_TOKEN}"}
    }
  },
  "userID": "\\u00e9\\ud83d\\ude00 and é😀"
}
"""
MCP_SERVERS = """{
\t"mcpServers": {
\t\t"github": {
\t\t\t"command": "docker",
\t\t\t"args": ["run", "-i", "--rm", "ghcr.io/github/github-mcp-server"],
\t\t\t"env": { "GITHUB_TOKEN": "${env:GITHUB_TOKEN}" }
\t\t},
\t\t"remote": { "url": "https://example.com/mcp" }
\t}
}"""
VSCODE = """{
    // Servers for every workspace
    "inputs": [
        {"id": "token", "type": "promptString", "password": true,}, /* asked once */
    ],
    "servers": {
        "fetch": {"type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"]}, // the web
        /* "old": {"command": "gone"}, */
    },
}
"""
ZED = """// Zed settings
//
// For information on how to configure Zed, see the documentation.
{
  "ui_font_size": 16, // "context_servers": {
  "theme": { "mode": "system", "light": "One Light", "dark": "One Dark" },
  "context_servers": {
    "everything": {
      "source": "custom",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-everything"]
    }
    // more later
  },
  "vim_mode": false
}
"""
GEMINI = '{"selectedAuthType": "oauth-personal", "theme": "Default", "mcp": {"allowed": ["a"]}}\n'
OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  // models
  "model": "anthropic/claude",
  "mcp": {
    "context7": {"type": "remote", "url": "https://mcp.context7.com/mcp", "headers": {"KEY": "{env:CONTEXT7}"}},
    "everything": {"type": "local", "command": ["npx", "-y", "everything"], "enabled": false},
  }, // end
}
"""
OPENCODE_2 = '{\n  "mcp": {\n    "timeout": 5,\n    "servers": {}\n  }\n}\n'
CODEX = """model = "gpt-5-codex"   # the default
approval_policy = "on-request"
notify = ["python3", '/home/ada/[notify].py']

[mcp_servers.docs]
command = "npx"
args = [
  "-y", # yes
  "docs-server",
]
env = { "API_KEY" = "x" }

[mcp_servers."with space".env]
TEXT = \"\"\"
[mcp_servers.hubbub]
not = "a table"
\"\"\"

# projects that are trusted
[projects."/home/ada/shop"]
trust_level = "trusted"

[[profiles.list]]
name = 'a'
"""
GOOSE = """GOOSE_PROVIDER: anthropic
GOOSE_MODEL: claude   # fast
extensions:
  developer:
    bundled: true
    enabled: true
    name: developer
    timeout: 300
    type: builtin

  # from a colleague
  notes:
    enabled: false
    type: stdio
    cmd: npx
    args:
    - -y
    - notes-server
    description: |
      Keeps notes.

      And more.
    envs: {}
GOOSE_MODE: auto
"""
SAMPLES: dict[str, tuple[str, ...]] = {
    "claude-code": (CLAUDE_CODE, '{"numStartups":1,"mcpServers":{}}'),
    "claude-desktop": (MCP_SERVERS, '{\n  "mcpServers": {\n  }\n}\n', '{"globalShortcut": ""}'),
    "codex": (CODEX, "", 'model = "x"', "[mcp_servers]\n", "# nothing\n\n\n"),
    "cursor": (MCP_SERVERS, "{}", ' { "mcpServers" : { } } '),
    "vscode": (VSCODE, '{\n    "servers": {},\n    "inputs": []\n}'),
    "windsurf": (MCP_SERVERS, "", "\n\n"),
    "gemini": (GEMINI, '{\n  "theme": "Default"\n}\n'),
    "opencode": (OPENCODE, OPENCODE_2, '{\n\t"$schema": "https://opencode.ai/config.json"\n}'),
    "zed": (ZED, "// nothing set\n{\n}\n", "{ // only a comment\n}\n"),
    "goose": (
        GOOSE,
        "GOOSE_MODE: auto",
        "extensions:\nGOOSE_MODE: auto\n",
        "extensions: {}\n",
        "---\n# empty\n",
        "a: 1\n",
    ),
    "cline": (MCP_SERVERS, '{"mcpServers": {"a": {"command": "b", "disabled": true, "autoApprove": []}}}'),
    "lmstudio": (MCP_SERVERS, '{\r\n  "mcpServers": {}\r\n}\r\n'),
}


def client_files() -> Iterator[tuple[Client, bytes]]:
    """Every sample for its client, also with other line endings, a byte order mark, and without its last newline."""
    for client in CLIENTS:
        for text in SAMPLES[client.name]:
            windows = text.replace("\r\n", "\n").replace("\n", "\r\n")
            for variant in dict.fromkeys((text, windows, text.rstrip("\n"))):
                yield client, variant.encode()
                yield client, b"\xef\xbb\xbf" + variant.encode()
