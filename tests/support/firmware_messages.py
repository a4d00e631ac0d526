"""What recordings do not show: messages laid out after the formats of Tasmota, Zigbee2MQTT and ESPHome."""

from drivers.mqtt.mappings import Sample

TASMOTA: list[tuple[str, bytes, list[Sample]]] = [
    (
        "tele/kitchen/SENSOR",
        b'{"Time":"2024-09-12T08:15:00","AM2301":{"Temperature":21.3,"Humidity":45.2,"DewPoint":9.0},"TempUnit":"C"}',
        [
            Sample("kitchen/AM2301", "temperature", 21.3, "Cel"),
            Sample("kitchen/AM2301", "humidity", 45.2, "%"),
            Sample("kitchen/AM2301", "dew_point", 9.0, "Cel"),
        ],
    ),
    (
        "tele/cellar/SENSOR",
        b'{"Time":"2024-09-12T08:15:00","DS18B20-1":{"Id":"0316A279F1FF","Temperature":62.6},'
        b'"DS18B20-2":{"Id":"0316A279F2FF","Temperature":null},"TempUnit":"F"}',
        [Sample("cellar/DS18B20-1", "temperature", 17.0, "Cel")],
    ),
    (
        "tele/plug/SENSOR",
        b'{"Time":"2024-09-12T08:15:00","ENERGY":{"TotalStartTime":"2023-01-01T00:00:00","Total":103.185,'
        b'"Yesterday":1.211,"Today":0.402,"Period":3,"Power":41,"ApparentPower":58,"ReactivePower":41,"Factor":0.71,'
        b'"Voltage":231,"Current":0.251}}',
        [
            Sample("plug/ENERGY", "total", 103.185, "kW.h"),
            Sample("plug/ENERGY", "yesterday", 1.211, "kW.h"),
            Sample("plug/ENERGY", "today", 0.402, "kW.h"),
            Sample("plug/ENERGY", "period", 3, "W.h"),
            Sample("plug/ENERGY", "power", 41, "W"),
            Sample("plug/ENERGY", "apparent_power", 58, "V.A"),
            Sample("plug/ENERGY", "reactive_power", 41, "var"),
            Sample("plug/ENERGY", "factor", 0.71),
            Sample("plug/ENERGY", "voltage", 231, "V"),
            Sample("plug/ENERGY", "current", 0.251, "A"),
        ],
    ),
    (
        "tele/meter/SENSOR",
        b'{"Time":"2024-09-12T08:15:00","ENERGY":{"Power":[10,20],"Voltage":230},"Switch1":"ON"}',
        [
            Sample("meter/ENERGY", "power_1", 10, "W"),
            Sample("meter/ENERGY", "power_2", 20, "W"),
            Sample("meter/ENERGY", "voltage", 230, "V"),
            Sample("meter", "switch1", True),
        ],
    ),
    (
        "tele/roof/SENSOR",
        b'{"Time":"2024-09-12T08:15:00","TX23":{"Speed":{"Act":14.8,"Avg":8.5},"Dir":{"Card":"WSW","Deg":247.5}},'
        b'"ANALOG":{"CTEnergy1":{"Power":2300,"Voltage":230},"Temperature2":68},"AS3935":{"Energy":58622,"Distance":12},'
        b'"BMP280":{"Pressure":29.9},"TempUnit":"F","SpeedUnit":"km/h","PressureUnit":"inHg"}',
        [
            Sample("roof/TX23", "speed_act", 14.8, "km/h"),
            Sample("roof/TX23", "speed_avg", 8.5, "km/h"),
            Sample("roof/TX23", "dir_deg", 247.5),
            Sample("roof/ANALOG", "ctenergy1_power", 2300, "W"),
            Sample("roof/ANALOG", "ctenergy1_voltage", 230, "V"),
            Sample("roof/ANALOG", "temperature2", 20.0, "Cel"),
            Sample("roof/AS3935", "energy", 58622),
            Sample("roof/AS3935", "distance", 12, "cm"),
            Sample("roof/BMP280", "pressure", 29.9, "[in_i'Hg]"),
        ],
    ),
    (
        "tele/plug/STATE",
        b'{"Time":"2024-09-12T08:15:00","Uptime":"1T02:03:04","UptimeSec":93784,"Heap":26,"SleepMode":"Dynamic","Sleep":50,'
        b'"LoadAvg":19,"MqttCount":1,"POWER":"ON","Wifi":{"AP":1,"SSId":"home","BSSId":"AA:BB:CC:DD:EE:FF","Channel":6,'
        b'"Mode":"11n","RSSI":84,"Signal":-58,"LinkCount":1,"Downtime":"0T00:00:03"}}',
        [
            Sample("plug", "power", True),
            Sample("plug", "uptime", 93784, "s"),
            Sample("plug", "wifi_signal", -58, "dBm"),
        ],
    ),
    ("stat/plug/RESULT", b'{"POWER1":"OFF"}', [Sample("plug", "power1", False)]),
    ("tele/plug/LWT", b"Offline", [Sample("plug", "online", False)]),
    ("plug/tele/LWT", b"Offline", [Sample("plug", "online", False)]),
    ("tele/plug/LWT", b"DeepSleep", []),
    (
        "tele/house/kitchen/SENSOR",
        b'{"Time":"2024-09-12T08:15:00","SGP30":{"eCO2":450,"TVOC":12}}',
        [Sample("house/kitchen/SGP30", "eco2", 450, "[ppm]"), Sample("house/kitchen/SGP30", "tvoc", 12, "[ppb]")],
    ),
]

ZIGBEE2MQTT: list[tuple[str, bytes, list[Sample]]] = [
    (
        "zigbee2mqtt/living room/climate",
        b'{"battery":97,"humidity":48.12,"linkquality":120,"pressure":1009.4,"temperature":22.41,"voltage":3005,'
        b'"last_seen":"2024-09-12T08:15:00+02:00","power_outage_count":12}',
        [
            Sample("living room/climate", "battery", 97, "%"),
            Sample("living room/climate", "humidity", 48.12, "%"),
            Sample("living room/climate", "linkquality", 120),
            Sample("living room/climate", "pressure", 1009.4, "hPa"),
            Sample("living room/climate", "temperature", 22.41, "Cel"),
            Sample("living room/climate", "voltage", 3005, "mV"),
            Sample("living room/climate", "power_outage_count", 12),
        ],
    ),
    (
        "zigbee2mqtt/door",
        b'{"battery":100,"battery_low":false,"contact":true,"linkquality":255,"tamper":false,"update":{"state":"idle",'
        b'"installed_version":5,"latest_version":5}}',
        [
            Sample("door", "battery", 100, "%"),
            Sample("door", "battery_low", False),
            Sample("door", "contact", True),
            Sample("door", "linkquality", 255),
            Sample("door", "tamper", False),
        ],
    ),
    (
        "zigbee2mqtt/washer",
        b'{"current":0.12,"energy":81.37,"linkquality":90,"power":17,"state":"ON","voltage":232,"color":{"x":0.3,"y":0.4}}',
        [
            Sample("washer", "current", 0.12, "A"),
            Sample("washer", "energy", 81.37, "kW.h"),
            Sample("washer", "linkquality", 90),
            Sample("washer", "power", 17, "W"),
            Sample("washer", "state", True),
            Sample("washer", "voltage", 232, "V"),
            Sample("washer", "color_x", 0.3),
            Sample("washer", "color_y", 0.4),
        ],
    ),
    ("zigbee2mqtt/washer/availability", b'{"state":"offline"}', [Sample("washer", "online", False)]),
    ("zigbee2mqtt/washer/availability", b"online", [Sample("washer", "online", True)]),
]

ESPHOME: list[tuple[str, bytes, list[Sample]]] = [
    ("office/sensor/office_temperature/state", b"22.6", [Sample("office", "office_temperature", 22.6, "Cel")]),
    ("office/sensor/wifi_signal/state", b"-61", [Sample("office", "wifi_signal", -61.0, "dBm")]),
    ("office/sensor/office_co2/state", b"nan", []),
    ("office/sensor/pulses/state", b"17", [Sample("office", "pulses", 17.0)]),
    ("office/binary_sensor/motion/state", b"ON", [Sample("office", "motion", True)]),
    ("office/switch/heater/state", b"OFF", [Sample("office", "heater", False)]),
    ("office/sensor/version/state", b"2024.8.1", [Sample("office", "version", "2024.8.1")]),
    ("office/sensor/door/state", b"unknown", []),
    ("office/number/setpoint_temperature/state", b"21.5", [Sample("office", "setpoint_temperature", 21.5, "Cel")]),
    ("esphome/attic/sensor/temperature_2/state", b"9.25", [Sample("esphome/attic", "temperature_2", 9.25, "Cel")]),
    ("a/b/c/status", b"offline", [Sample("a/b/c", "online", False)]),
    ("office/status", b"online", [Sample("office", "online", True)]),
]

NOT_READ = [
    ("zigbee2mqtt/bridge/state", b'{"state":"online"}'),
    ("zigbee2mqtt/bridge/devices", b"[]"),
    ("zigbee2mqtt/washer/set", b'{"state":"ON"}'),
    ("tele/plug/INFO1", b"{}"),
    ("office/debug", b"[I] hello"),
    ("boiler/status", b'{"burner":"on"}'),  # of some other program
]
