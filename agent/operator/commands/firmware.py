"""`headgate firmware`: signs firmware for microcontrollers and updates them over the link."""

import argparse
import asyncio
import dataclasses
import json
import secrets
import sys
from pathlib import Path
from typing import Any, Final

from nacl.signing import SigningKey

from agent.errors import ConfigError, ExitCode
from agent.keys.files import KEY_BYTES, read_public_key
from agent.keys.secret import Secret
from agent.operator.arguments import add_config_argument
from agent.operator.firmware_devices import Found, LineSettings, RunningAgent, list_devices, named_agent, open_link
from agent.operator.terminal import Progress
from drivers.firmware.port import DEFAULT_BAUDRATE
from drivers.serial_driver import port_problem
from firmware_bridge import CommandRejected, UpdateReport, UpdateResult, check_signature, update_firmware
from protocol.firmware import MAX_IMAGE_BYTES, MAX_PACKAGE_BYTES, Package, is_signed_by, package_image, slot_bytes
from protocol.link import CommandDescription, CommandResult, CommandStatus, CommandValue, UpdateState
from runtime.durable_files import create_file, replace_file
from runtime.private_files import read_private_file

DESCRIPTION = (
    "Firmware of microcontrollers on the serial link: create a signing key, sign an image, list versions,"
    " update. A device runs only firmware signed by a key that it trusts."
)
PUBLIC_SUFFIX: Final = ".pub"
PUBLIC_FILE_MODE: Final = 0o644
MAX_KEY_TEXT_BYTES: Final = 128
DEFAULT_SECTOR_BYTES: Final = 4096

_STATES: Final = {
    UpdateState.IDLE: "ready for an update",
    UpdateState.RECEIVING: "an update is in progress",
    UpdateState.STAGED: "new firmware starts at the next reset",
    UpdateState.TRIAL: "on trial, not confirmed yet",
    UpdateState.REFUSED: "does not report its state",
}
_REFUSALS: Final = {
    CommandStatus.UNKNOWN: "unknown command",
    CommandStatus.BAD_ARGUMENT: "invalid argument",
    CommandStatus.FAILED: "the device failed to execute it",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    keygen = actions.add_parser("keygen", help="create a key that signs firmware; an existing key is never replaced")
    keygen.add_argument(
        "key",
        type=Path,
        metavar="FILE",
        help=f"private key file to create; the public key is written to FILE{PUBLIC_SUFFIX}",
    )
    _add_sign_arguments(actions.add_parser("sign", help="sign an image and write a firmware file"))
    show = actions.add_parser("show", help="show the content of a firmware file and check its signature")
    show.add_argument("firmware", type=Path, metavar="FILE")
    _add_trust_argument(show, is_required=False)
    show.add_argument("--json", action="store_true", help="print JSON")
    listing = actions.add_parser(
        "list", help="list the devices and their firmware versions, on the agent's ports and all others"
    )
    _add_link_arguments(listing, is_port_required=False)
    calling = actions.add_parser("call", help="execute a command on a device, once")
    calling.add_argument(
        "command", nargs="?", metavar="COMMAND", help="command to execute (default: list the device's commands)"
    )
    calling.add_argument("argument", nargs="?", metavar="ARGUMENT", help="argument of the command: an integer or text")
    _add_link_arguments(calling, is_port_required=True)
    update = actions.add_parser("update", help="update the firmware of a device")
    update.add_argument("firmware", type=Path, metavar="FILE")
    _add_trust_argument(update, is_required=True)
    _add_link_arguments(update, is_port_required=True)
    update.add_argument("--force", action="store_true", help="update even if the device already runs this version")


def _add_sign_arguments(sign: argparse.ArgumentParser) -> None:
    sign.add_argument("image", type=Path, metavar="IMAGE", help="raw flash image (objcopy -O binary)")
    sign.add_argument("--key", type=Path, required=True, metavar="FILE", help="private key file")
    sign.add_argument(
        "--board",
        required=True,
        help="name of the board, as its boot loader reports it; other boards refuse the firmware",
    )
    sign.add_argument("--version", required=True, help="version that the firmware reports over the link")
    sign.add_argument(
        "--counter",
        type=int,
        required=True,
        help="anti-rollback counter: a device that has confirmed this firmware refuses lower ones",
    )
    sign.add_argument(
        "--out", "-o", type=Path, required=True, metavar="FILE", help="firmware file to write, usually *.hgfw"
    )
    sign.add_argument(
        "--slot-out",
        type=Path,
        metavar="FILE",
        help="also write the raw content of a flash slot, for programming at the factory",
    )
    sign.add_argument(
        "--sector-bytes",
        type=int,
        default=DEFAULT_SECTOR_BYTES,
        help="sector size of the flash in bytes (default: %(default)s)",
    )


def _add_trust_argument(parser: argparse.ArgumentParser, *, is_required: bool) -> None:
    parser.add_argument(
        "--trust",
        type=Path,
        action="append",
        required=is_required,
        default=[],
        metavar="FILE",
        help="public key file to trust; may be given several times",
    )


def _add_link_arguments(parser: argparse.ArgumentParser, *, is_port_required: bool) -> None:
    several = "" if is_port_required else "; may be given several times"
    parser.add_argument(
        "--port",
        type=_port,
        action="store" if is_port_required else "append",
        required=is_port_required,
        help=f"port of the device: /dev/…, usb:VENDOR:PRODUCT or tcp://HOST:PORT{several}",
    )
    parser.add_argument(
        "--baudrate", type=int, default=DEFAULT_BAUDRATE, help="baud rate of the serial port (default: %(default)s)"
    )
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="file with the key that authenticates the link")
    add_config_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _port(text: str) -> str:
    if problem := port_problem(text):
        raise argparse.ArgumentTypeError(problem)
    return text


def run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "keygen":
            return _keygen(arguments.key)
        case "sign":
            return _sign(arguments)
        case "show":
            return _show(arguments)
        case "list":
            return _list(arguments)
        case "call":
            return _call(arguments, _line_settings(arguments), named_agent(arguments))
        case _:
            return _update(arguments)


# Keys and files


def _keygen(path: Path) -> ExitCode:
    if not path.name:
        raise ConfigError(f"{path}: not a file name")
    secret = Secret(secrets.token_bytes(KEY_BYTES))
    public = bytes(SigningKey(secret.reveal()).verify_key).hex()
    public_path = path.with_name(path.name + PUBLIC_SUFFIX)
    for each in (path, public_path):
        if each.exists():
            raise ConfigError(f"{each}: already exists and was not changed")
    create_file(path, secret.reveal().hex().encode() + b"\n")
    create_file(public_path, public.encode() + b"\n", mode=PUBLIC_FILE_MODE)
    print(f"{path}: signing key created; keep it and a copy in a safe place", file=sys.stderr)
    print(public)
    return ExitCode.OK


def _read_signing_key(path: Path) -> SigningKey:
    text = Secret(read_private_file(path, max_bytes=MAX_KEY_TEXT_BYTES))
    try:
        return SigningKey(bytes.fromhex(text.reveal().decode().strip()))
    except (ValueError, TypeError):
        raise ConfigError(f"{path}: not a private key of {2 * KEY_BYTES} hex digits") from None


def _sign(arguments: argparse.Namespace) -> ExitCode:
    key = _read_signing_key(arguments.key)
    try:
        package = package_image(
            _read_bounded(arguments.image, MAX_IMAGE_BYTES),
            board=arguments.board,
            version=arguments.version,
            counter=arguments.counter,
            sign=lambda message: key.sign(message).signature,
        )
        slot = slot_bytes(package, sector_bytes=arguments.sector_bytes)
    except ValueError as error:
        raise ConfigError(f"{arguments.image}: {error}") from None
    replace_file(arguments.out, package.to_bytes(), mode=PUBLIC_FILE_MODE)
    if arguments.slot_out is not None:
        replace_file(arguments.slot_out, slot, mode=PUBLIC_FILE_MODE)
    print(f"{arguments.out}: {_described(package)}", file=sys.stderr)
    return ExitCode.OK


def _show(arguments: argparse.Namespace) -> ExitCode:
    package = _read_package(arguments.firmware)
    keys = [read_public_key(path) for path in arguments.trust]
    is_trusted = any(is_signed_by(key, package.manifest, package.signature) for key in keys)
    if arguments.json:
        print(json.dumps({**_as_json(package), "trusted": is_trusted if keys else None}))
    else:
        verdict = f", {'signed by a trusted key' if is_trusted else 'NOT SIGNED by a trusted key'}" if keys else ""
        print(f"{_described(package)}{verdict}")
    return ExitCode.OK if is_trusted or not keys else ExitCode.NO


def _read_package(path: Path) -> Package:
    return Package.from_bytes(_read_bounded(path, MAX_PACKAGE_BYTES))


def _read_bounded(path: Path, max_bytes: int) -> bytes:
    """Read at most one byte more than is allowed, so that the parser detects an oversized file."""
    with path.open("rb") as file:
        return file.read(max_bytes + 1)


def _described(package: Package) -> str:
    manifest = package.manifest
    return f"{manifest.version} for {manifest.board}, counter {manifest.counter}, {manifest.size_bytes} bytes"


def _as_json(package: Package) -> dict[str, Any]:
    manifest = package.manifest
    return {
        "board": manifest.board,
        "version": manifest.version,
        "counter": manifest.counter,
        "size_bytes": manifest.size_bytes,
        "sha512": manifest.sha512.hex(),
    }


# Devices


def _line_settings(arguments: argparse.Namespace) -> LineSettings:
    return LineSettings(baudrate=arguments.baudrate, key_file=arguments.key_file)


def _list(arguments: argparse.Namespace) -> ExitCode:
    found = asyncio.run(list_devices(arguments.port, _line_settings(arguments), named_agent(arguments)))
    for each in found:
        _print_device(each, as_json=arguments.json)
    is_complete = not any(each.problem for each in found)
    return ExitCode.OK if is_complete or not arguments.port else ExitCode.UNAVAILABLE


def _print_device(found: Found, *, as_json: bool) -> None:
    if as_json:
        state = None if found.state is None else found.state.name.lower()
        print(json.dumps({**dataclasses.asdict(found), "state": state}))
    elif found.problem:
        print(f"headgate: {found.problem}", file=sys.stderr)
    else:
        state = "does not support updates" if found.state is None else _STATES[found.state]
        state += "; the last update did not start and was rolled back" if found.has_reverted else ""
        print(f"{found.port}  {found.device}  {found.firmware}  {state}")


def _update(arguments: argparse.Namespace) -> ExitCode:
    package = _read_package(arguments.firmware)
    try:
        check_signature(package, map(read_public_key, arguments.trust))
        report = asyncio.run(_transfer(package, arguments))
    except CommandRejected as error:
        print(f"headgate: {error}", file=sys.stderr)
        return ExitCode.NO
    if arguments.json:
        print(json.dumps({**dataclasses.asdict(report), "result": report.result.value}))
    else:
        print(_summary(report, package.manifest.version))
    return ExitCode.NO if report.result is UpdateResult.REVERTED else ExitCode.OK


async def _transfer(package: Package, arguments: argparse.Namespace) -> UpdateReport:
    with Progress(f"updating {arguments.port}", package.manifest.size_bytes) as progress:
        async with open_link(arguments.port, _line_settings(arguments), named_agent(arguments)) as link:
            return await update_firmware(link, package, reached=progress.reach, is_forced=arguments.force)


def _summary(report: UpdateReport, version: str) -> str:
    match report.result:
        case UpdateResult.CONFIRMED:
            return f"{report.device_id}: {report.before} → {report.after}, confirmed"
        case UpdateResult.ALREADY_RUNS:
            return f"{report.device_id}: already runs {report.after}"
        case UpdateResult.REVERTED:
            return f"{report.device_id}: {version} did not start; the device rolled back to {report.after}"


# Commands of a device


def _call(arguments: argparse.Namespace, line: LineSettings, agent: RunningAgent | None) -> ExitCode:
    """Execute a command at most once; if the outcome is unknown, the error says so. Raises: LinkDown, DeviceError."""
    if arguments.command is None:
        _show_commands(asyncio.run(_commands(arguments.port, line, agent)), as_json=arguments.json)
        return ExitCode.OK
    result = asyncio.run(_execute(arguments, line, agent))
    _show_result(result, as_json=arguments.json)
    return ExitCode.OK if result.status is CommandStatus.DONE else ExitCode.NO


async def _execute(arguments: argparse.Namespace, line: LineSettings, agent: RunningAgent | None) -> CommandResult:
    async with open_link(arguments.port, line, agent) as link:
        await link.opened()
        return await link.call(arguments.command, _value_of(arguments.argument))


async def _commands(port: str, line: LineSettings, agent: RunningAgent | None) -> list[CommandDescription]:
    async with open_link(port, line, agent) as link:
        return list(await link.commands())


def _value_of(text: str | None) -> CommandValue:
    try:
        return None if text is None else int(text)
    except ValueError:
        return text


def _show_commands(commands: list[CommandDescription], *, as_json: bool) -> None:
    for each in commands:
        row = {"command": each.name, "argument": each.argument}
        print(json.dumps(row) if as_json else f"{each.name:<16}{each.argument}".rstrip())


def _show_result(result: CommandResult, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"status": result.status.name.lower(), "value": result.value}))
        return
    answer = "" if result.value is None else f"  {result.value}"
    print(f"{_REFUSALS.get(result.status, 'done')}{answer}")
