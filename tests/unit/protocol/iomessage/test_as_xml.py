import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from protocol.errors import Unsupported, WireError
from protocol.iomessage import IoMessage, Quirk
from tests.support.iomessage_samples import EVERY_FIELD, message

TMG: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "vectors" / "iomessage" / "tmg-1.1-xml.json").read_text()
)
BILLION_LAUGHS = """<!DOCTYPE iomessage [<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>
<iomessage><tag>&c;</tag></iomessage>"""
EXTERNAL = '<!DOCTYPE iomessage SYSTEM "file:///etc/passwd"><iomessage/>'
EXTERNAL_ENTITY = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><iomessage><tag>&e;</tag></iomessage>'


def test_every_field_comes_back() -> None:
    full = message(**EVERY_FIELD)
    assert IoMessage.from_xml(full.to_xml()) == full
    assert IoMessage.from_xml(full.to_xml().encode()) == full


def test_every_element_is_written_in_the_order_of_the_document() -> None:
    elements = list(ElementTree.fromstring(message(**EVERY_FIELD).to_xml()))
    assert [element.tag for element in elements][:4] == ["id", "tag", "groupid", "sequencenumber"]
    assert len(elements) == 20


@pytest.mark.needs("xmllint", "libxml2-utils")
def test_another_parser_reads_the_same_text() -> None:
    tag = "a<b & \"c\" ]]> 'd'\r\n\t é 😀"
    text = message(tag=tag).to_xml()
    read = subprocess.run(
        ["xmllint", "--xpath", "string(/iomessage/tag)", "-"], input=text.encode(), capture_output=True, check=True
    )
    assert read.stdout.decode().removesuffix("\n") == tag


def test_carriage_returns_and_markup_survive() -> None:
    tag = "\r\n\t<&>]]>"
    assert IoMessage.from_xml(message(tag=tag).to_xml()).tag == tag


@pytest.mark.parametrize("character", ["\x00", "\x01", "\x1f", "\ufffe"])
def test_characters_that_xml_cannot_carry_are_refused_on_write(character: str) -> None:
    with pytest.raises(Unsupported, match=f"tag holds U.{ord(character):04X} at character 2, which XML cannot carry"):
        message(tag=f"ab{character}").to_xml()


@pytest.mark.parametrize("document", [BILLION_LAUGHS, EXTERNAL, EXTERNAL_ENTITY])
def test_nothing_expands_and_nothing_is_fetched(document: str) -> None:
    with pytest.raises(Unsupported, match="document types and entities are refused"):
        IoMessage.from_xml(document)


def test_the_document_s_own_example_is_read() -> None:
    read = IoMessage.from_xml(
        """<?xml version="1.0" encoding="utf-8"?>
        <IoMessage>
            <id>sd098wytfskduhdsfDSKfhjw4o8ytwesdoiuhsdf</id>
            <sequencenumber> 1 </sequencenumber>
            <sequencetotal></sequencetotal>
            <groupid></groupid>
            <difficultytarget>0.0</difficultytarget>
            <unknown><id>not this one</id></unknown>
            <contentdata>
                MjEu
                NQ==
            </contentdata>
        </IoMessage>"""
    )
    assert read.id == "sd098wytfskduhdsfDSKfhjw4o8ytwesdoiuhsdf"
    assert (read.sequence_number, read.sequence_total, read.difficulty_target) == (1, None, 0)
    assert (read.group_id, read.tag) == ("", None)
    assert read.content_data == b"21.5"


def test_an_absent_integer_has_no_element_and_0_has_one() -> None:
    endless = message(group_id="g", sequence_number=3)
    assert "<sequencetotal>" not in endless.to_xml()
    assert IoMessage.from_xml(endless.to_xml()).sequence_total is None
    assert IoMessage.from_xml(endless.replace(sequence_total=0).to_xml()).sequence_total == 0


def test_plain_text_where_base64_belongs_is_taken_as_it_is_and_flagged() -> None:
    read = IoMessage.from_xml("<iomessage><contentdata> 21.5 °C\n</contentdata></iomessage>")
    assert (read.content_data, read.context_data) == (" 21.5 °C\n".encode(), None)
    assert read.quirks == Quirk.RAW_CONTENT


def test_contents_are_both_base64_or_both_text() -> None:
    read = IoMessage.from_xml("<iomessage><contextdata>open</contextdata><contentdata>21.5</contentdata></iomessage>")
    assert (read.context_data, read.content_data) == (b"open", b"21.5")


@pytest.mark.parametrize("text", ["hello world", "a\tb", "two words\nMjEuNQ=="])
def test_a_blank_within_a_line_makes_it_a_text(text: str) -> None:
    assert IoMessage.from_xml(f"<iomessage><contentdata>{text}</contentdata></iomessage>").content_data == text.encode()


@pytest.mark.parametrize("vector", TMG)
def test_what_the_test_message_generator_wrote_is_read(vector: dict[str, Any]) -> None:
    read = IoMessage.from_xml(vector["xml"])
    assert (read.tag, read.sequence_number, read.sequence_total) == ("Camera 16", 3, 12)
    if vector["is_base64_by_chance"]:
        assert read.quirks == Quirk.NONE
        return
    assert (read.content_data or b"").hex() == vector["contentdata_hex"]
    assert (read.context_data or b"").hex() == vector["contextdata_hex"]


def test_every_vector_of_the_test_message_generator_is_here() -> None:
    assert (len(TMG), sum(vector["is_base64_by_chance"] for vector in TMG)) == (36, 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<iomessage>",
        "<messages/>",
        "{}",
        b"\xff\xfe",
        b'<?xml version="1.0" encoding="no-such"?><iomessage/>',
        "<iomessage>&undefined;</iomessage>",
        "<a>" * 10_000,
        "<iomessage><tag>\x00</tag></iomessage>",
        "<iomessage><version>5</version></iomessage>",
        "\ud800",
    ],
)
def test_what_is_no_message_is_a_wire_error(text: str | bytes) -> None:
    with pytest.raises(WireError):
        IoMessage.from_xml(text)


def test_an_encoding_that_the_document_declares_is_used() -> None:
    document = '<?xml version="1.0" encoding="iso-8859-1"?><iomessage><tag>°C</tag></iomessage>'
    assert IoMessage.from_xml(document.encode("latin-1")).tag == "°C"
