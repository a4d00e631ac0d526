import subprocess
import sys

WITHOUT = (
    "nacl",
    "websockets",
    "protocol.streamr.network",
    "protocol.streamr.control",
    "protocol.streamr.group_keys.rsa",
    "protocol.iomessage.as_xml",
)


def test_the_agent_starts_without_the_layers_that_it_may_never_use() -> None:
    command = "import sys, agent.operator.commands.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert set(WITHOUT) & set(done.stdout.split()) == set()
