/* Firmware update for the example application: what its link asks for, done by the updater. */
#include "../hg_updater.h"
#include "board.h"
#include "bootable_board.h"

static hg_updater_t updater; /* of the one board this is */
static bool is_ready;

static hg_updater_t *ready_updater(void)
{
    if (!is_ready) {
        hg_updater_init(&updater, &bootable_device);
    }
    is_ready = true;
    return &updater;
}

static hg_fw_state_t state(const hg_updater_t *now)
{
    if (now->record.trial == HG_TRIAL_RUNS) {
        return HG_FW_TRIAL;
    }
    if (now->record.trial == HG_TRIAL_STAGED) {
        return HG_FW_STAGED;
    }
    return now->size_bytes > 0 ? HG_FW_RECEIVING : HG_FW_IDLE;
}

/* A firmware on trial reports this, and a chunk out of place ends nothing; all other refusals report the reason. */
static hg_fw_status_t answer(hg_firmware_status_t status)
{
    const hg_updater_t *now = ready_updater();
    hg_fw_status_t report = {now->next_offset, state(now), HG_FW_NONE};
    if (report.state == HG_FW_IDLE && now->record.last_end == HG_TRIAL_REVERTED) {
        report.reason = HG_FW_REVERTED;
    }
    if (status != HG_FIRMWARE_OK && status != HG_FIRMWARE_ON_TRIAL) {
        report.state = status == HG_FIRMWARE_OUT_OF_PLACE ? report.state : HG_FW_REFUSED;
        report.reason = (hg_fw_reason_t)-status;
    }
    return report;
}

static hg_fw_status_t begin(void *user, hg_bytes_t manifest, const uint8_t signature[64])
{
    (void)user;
    return answer(hg_updater_begin(ready_updater(), manifest.data, manifest.len, signature));
}

static hg_fw_status_t chunk(void *user, uint32_t offset, hg_bytes_t data)
{
    (void)user;
    return answer(hg_updater_chunk(ready_updater(), offset, data.data, data.len));
}

static hg_fw_status_t end(void *user)
{
    (void)user;
    hg_firmware_status_t status = hg_updater_end(ready_updater());
    if (status == HG_FIRMWARE_OK) {
        bootable_reset_soon();
    }
    return answer(status);
}

static hg_fw_status_t confirm(void *user)
{
    (void)user;
    hg_firmware_status_t status = hg_updater_confirm(ready_updater());
    if (status == HG_FIRMWARE_OK) {
        bootable_stop_watchdog();
    }
    return answer(status);
}

static hg_fw_status_t query(void *user)
{
    (void)user;
    return answer(HG_FIRMWARE_OK);
}

const hg_update_t board_update = {begin, chunk, end, confirm, query};
