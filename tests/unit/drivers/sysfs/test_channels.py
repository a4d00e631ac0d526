"""The kernel's classes, against trees laid out as it does."""

from pathlib import Path

import pytest

from drivers.reading import Scalar
from drivers.sysfs.channels import CLASSES, channels_of, read_channel
from tests.support.driver_samples import write_tree

W1_SLAVE = "57 01 4b 46 7f ff 0c 10 a1 : crc=a1 {}\n57 01 4b 46 7f ff 0c 10 a1 t={}\n"


def read_all(kernel_class: str, root: Path) -> dict[tuple[str, str], tuple[Scalar | None, str]]:
    found = channels_of(kernel_class, root)
    return {(each.sensor, each.quantity): (read_channel(each), each.unit) for each in found}


def test_one_wire_thermometers_in_new_and_old_kernels(tmp_path: Path) -> None:
    devices = "sys/bus/w1/devices"
    files = {
        f"{devices}/28-0316a279f1ff/temperature": "21437\n",
        f"{devices}/28-000000000001/w1_slave": W1_SLAVE.format("YES", -1250),
        f"{devices}/28-000000000002/w1_slave": W1_SLAVE.format("NO", 21437),
        f"{devices}/28-000000000003/temperature": "85000\n",
        f"{devices}/28-000000000004/w1_slave": W1_SLAVE.format("YES", 85000),
        f"{devices}/28-000000000005/temperature": "\n",
        f"{devices}/28-000000000006/temperature": "1e999\n",
        f"{devices}/w1_bus_master1/w1_master_name": "w1_bus_master1\n",
    }
    write_tree(tmp_path, files)
    assert {sensor: value for (sensor, _), (value, _) in read_all("w1", tmp_path).items()} == {
        "28-0316a279f1ff": 21.437,
        "28-000000000001": -1.25,
        "28-000000000002": None,  # wrong checksum on the wire
        "28-000000000003": None,  # 85 °C: not measured
        "28-000000000004": None,
        "28-000000000005": None,
        "28-000000000006": None,
    }


def test_iio_channels_processed_or_raw_with_own_or_shared_scale(tmp_path: Path) -> None:
    bme, adc = "sys/bus/iio/devices/iio:device0", "sys/bus/iio/devices/iio:device1"
    files = {
        f"{bme}/name": "bme280\n",
        f"{bme}/in_temp_input": "21340\n",
        f"{bme}/in_humidityrelative_input": "45210\n",
        f"{bme}/in_pressure_input": "101.325\n",
        f"{bme}/in_pressure_raw": "7\n",
        f"{adc}/name": "ads1015\n",
        f"{adc}/in_voltage0_raw": "1000\n",
        f"{adc}/in_voltage0_scale": "3.0\n",
        f"{adc}/in_voltage1_raw": "1000\n",
        f"{adc}/in_voltage_scale": "2.0\n",
        f"{adc}/in_temp_raw": "100\n",
        f"{adc}/in_temp_offset": "-50\n",
        f"{adc}/in_temp_scale": "500\n",
        f"{adc}/in_accel_x_raw": "-2\n",
        f"{adc}/in_voltage0-voltage1_raw": "5\n",
        f"{adc}/in_count0_raw": "5\n",
    }
    write_tree(tmp_path, files)
    assert read_all("iio", tmp_path) == {
        ("bme280", "temperature"): (21.34, "Cel"),
        ("bme280", "humidity"): (45.21, "%"),
        ("bme280", "pressure"): (1013.25, "hPa"),
        ("ads1015", "voltage0"): (3.0, "V"),
        ("ads1015", "voltage1"): (2.0, "V"),
        ("ads1015", "temperature"): (25.0, "Cel"),
        ("ads1015", "acceleration_x"): (-2.0, "m/s2"),
    }


def test_hwmon_channels_with_labels_and_twins(tmp_path: Path) -> None:
    one, two = "sys/class/hwmon/hwmon0", "sys/class/hwmon/hwmon1"
    files = {
        f"{one}/name": "ina219\n",
        f"{one}/in1_input": "5012\n",
        f"{one}/curr1_input": "430\n",
        f"{one}/power1_input": "2150000\n",
        f"{one}/temp1_input": "41000\n",
        f"{one}/temp1_label": "Package id 0\n",
        f"{one}/temp1_max": "100000\n",
        f"{one}/fan1_input": "1450\n",
        f"{two}/name": "ina219\n",
        f"{two}/in1_input": "3300\n",
    }
    write_tree(tmp_path, files)
    assert read_all("hwmon", tmp_path) == {
        ("ina219", "voltage_1"): (5.012, "V"),
        ("ina219", "current_1"): (0.43, "A"),
        ("ina219", "power_1"): (2.15, "W"),
        ("ina219", "temperature_package_id_0"): (41.0, "Cel"),
        ("ina219", "fan_speed_1"): (1450.0, "/min"),
        ("ina219-2", "voltage_1"): (3.3, "V"),
    }


def test_thermal_zones_pins_and_leds(tmp_path: Path) -> None:
    files = {
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "48312\n",
        "sys/class/gpio/gpio17/value": "1\n",
        "sys/class/gpio/gpiochip0/base": "0\n",
        "sys/class/leds/ACT/brightness": "0\n",
    }
    write_tree(tmp_path, files)
    assert read_all("thermal", tmp_path) == {("cpu_thermal-0", "temperature"): (48.312, "Cel")}
    assert read_all("gpio", tmp_path) == {("gpio17", "state"): (True, "")}
    assert read_all("leds", tmp_path) == {("act", "state"): (False, "")}


@pytest.mark.parametrize("kernel_class", CLASSES)
def test_a_machine_without_the_class_has_no_channels(kernel_class: str, tmp_path: Path) -> None:
    assert channels_of(kernel_class, tmp_path) == []
