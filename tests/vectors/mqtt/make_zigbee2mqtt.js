// Writes zigbee2mqtt.json: what the converters that Zigbee2MQTT itself runs make of attribute reports, and the unit
// that they give each number. To make it again, in a directory of its own:
//
//     npm install zigbee-herdsman-converters@26.112.0
//     NODE_PATH=node_modules node .../tests/vectors/mqtt/make_zigbee2mqtt.js > .../tests/vectors/mqtt/zigbee2mqtt.json

"use strict";
const fs = require("fs");
const path = require("path");
const converters = require("zigbee-herdsman-converters");
const root = path.dirname(require.resolve("zigbee-herdsman-converters/package.json"));
const silent = () => undefined;
converters.setLogger({debug: silent, info: silent, warning: silent, error: silent});

const CLIMATE = [["msTemperatureMeasurement", {measuredValue: 2158}], ["msRelativeHumidity", {measuredValue: 4507}]];
const BATTERY = ["genPowerCfg", {batteryPercentageRemaining: 194}];
const METERED = [
    ["genOnOff", {onOff: 1}],
    ["haElectricalMeasurement", {activePower: 45, rmsCurrent: 210, rmsVoltage: 231}],
    ["seMetering", {currentSummDelivered: 1205}],
];
const SCALES = {scale: -1, multiplier: 1, divisor: 100, acPowerMultiplier: 1, acPowerDivisor: 1, acVoltageMultiplier: 1,
    acVoltageDivisor: 1, acCurrentMultiplier: 1, acCurrentDivisor: 1000};
// model as the device says it, its maker, what it reports
const DEVICES = [
    ["lumi.weather", "LUMI", [...CLIMATE, ["msPressureMeasurement", {scaledValue: 9972}],
        ["genBasic", {65281: {1: 2995, 5: 805}}]]],
    ["lumi.sensor_magnet.aq2", "LUMI", [["genOnOff", {onOff: 0}], ["genBasic", {65281: {1: 3005, 3: 25}}]]],
    ["lumi.sensor_wleak.aq1", "LUMI", [["ssIasZone", {zonestatus: 1}, "commandStatusChangeNotification"]]],
    ["lumi.sensor_switch", "LUMI", [["genOnOff", {32768: 2}], ["genBasic", {65281: {1: 3042}}]]],
    ["lumi.sensor_smoke", "LUMI", [["ssIasZone", {zonestatus: 0}, "commandStatusChangeNotification"]]],
    ["SNZB-02P", "eWeLink", [...CLIMATE, BATTERY]],
    ["TS0201", "_TZ3000_fllyghyj", [...CLIMATE, BATTERY, ["genPowerCfg", {batteryVoltage: 30}]]],
    ["TS011F", "_TZ3000_cphmq0q7", METERED],
    ["3RSPE01044BZ", "Third Reality, Inc", METERED],
    ["msh.bme280psm", "MSH", [...CLIMATE, ["msPressureMeasurement", {measuredValue: 997}]]],
    ["SML001", "Philips", [["msOccupancySensing", {occupancy: 1}], CLIMATE[0],
        ["msIlluminanceMeasurement", {measuredValue: 12345}], BATTERY]],
    ["VINDSTYRKA", "IKEA of Sweden", [...CLIMATE, ["pm25Measurement", {measuredValue: 6, measuredValueIkea: 6}],
        ["manuSpecificIkeaVocIndexMeasurement", {measuredValue: 110}]]],
    ["FYRTUR block-out roller blind", "IKEA of Sweden", [["closuresWindowCovering",
        {currentPositionLiftPercentage: 100}], BATTERY]],
    ["SPZB0001", "Eurotronic", [["hvacThermostat", {localTemp: 2159, occupiedHeatingSetpoint: 2050,
        pIHeatingDemand: 64}], BATTERY]],
    ["YRD256 TSDB", "Yale", [["closuresDoorLock", {lockState: 1}], BATTERY]],
    ["TRADFRI bulb E27 WS opal 1000lm", "IKEA of Sweden", [["genOnOff", {onOff: 1}],
        ["genLevelCtrl", {currentLevel: 254}], ["lightingColorCtrl", {colorTemperature: 366, colorMode: 2}]]],
];

class Endpoint {
    constructor(ID, device) {
        Object.assign(this, {ID, deviceIeeeAddress: device.ieeeAddr, binds: [], meta: {}});
        this.getDevice = () => device;
    }
    getClusterAttributeValue(cluster, attribute) { return SCALES[attribute]; }
    saveClusterAttributeKeyValue() {}
    supportsInputCluster() { return true; }
    supportsOutputCluster() { return true; }
    getInputClusters() { return []; }
    getOutputClusters() { return []; }
}

class Device {
    constructor(modelID, manufacturerName) {
        Object.assign(this, {modelID, manufacturerName, ieeeAddr: "0x00124b0000000001", type: "EndDevice", meta: {},
            customClusters: {}, interviewState: "SUCCESSFUL", powerSource: "Battery"});
        this.endpoints = [new Endpoint(1, this)];
    }
    getEndpoint(ID) { return this.endpoints.find((endpoint) => endpoint.ID === ID); }
    addCustomCluster() {}
    save() {}
}

let reportsSoFar = 0; // one that comes twice with the same number is left out

async function message([modelID, manufacturerName, reports]) {
    const device = new Device(modelID, manufacturerName);
    const definition = await converters.findByDevice(device);
    const state = {linkquality: 120};
    for (const [cluster, data, type = "attributeReport"] of reports) {
        const report = {cluster, data, type, device, endpoint: device.endpoints[0], linkquality: 120, groupID: 0,
            meta: {zclTransactionSequenceNumber: ++reportsSoFar}};
        const meta = {device, state, options: {}, deviceExposesChanged: silent};
        for (const converter of definition.fromZigbee) {
            if (converter.cluster !== cluster || ![converter.type].flat().includes(type)) continue;
            const payload = await converter.convert(definition, report, (more) => Object.assign(state, more), {}, meta);
            if (!payload) continue;
            converters.postProcessConvertedFromZigbeeMessage(definition, payload, {}, device);
            Object.assign(state, payload);
        }
    }
    const units = {};
    for (const [name, unit] of numbers(exposed(definition, device))) if (name in state) units[name] = unit;
    return {vendor: definition.vendor, model: definition.model, payload: JSON.stringify(state), units};
}

const exposed = (definition, device) =>
    typeof definition.exposes === "function" ? definition.exposes(device, {}) : definition.exposes;

function numbers(exposes) {
    return exposes.flatMap((expose) => {
        if (expose.features) return expose.type === "composite" ? [] : numbers(expose.features);
        return expose.type === "numeric" ? [[expose.property ?? expose.name, expose.unit ?? ""]] : [];
    });
}

/** property ──► unit ──► how many models */
function unitsOfAllModels() {
    const models = {};
    const directory = path.join(root, "dist", "devices");
    const files = fs.readdirSync(directory).filter((file) => file.endsWith(".js") && file !== "index.js");
    for (const definition of files.flatMap((file) => require(path.join(directory, file)).definitions ?? [])) {
        const all = exposed(converters.prepareDefinition(definition), {isDummyDevice: true});
        for (const [name, unit] of new Map(numbers(all))) {
            models[name] ??= {};
            models[name][unit] = (models[name][unit] ?? 0) + 1;
        }
    }
    const often = Object.entries(models).filter(([, units]) => Object.values(units).reduce((a, b) => a + b) >= 10);
    return Object.fromEntries(often.sort());
}

async function main() {
    const {version} = JSON.parse(fs.readFileSync(path.join(root, "package.json")));
    const messages = [];
    for (const device of DEVICES) messages.push(await message(device));
    console.log(JSON.stringify({converters: version, messages, units: unitsOfAllModels()}, null, 1));
}

main();
