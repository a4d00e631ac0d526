/* What a board brings to the example application. One board_*.c implements it. */
#ifndef BOARD_H
#define BOARD_H

#include "headgate_link.h"

const char *board_device_id(void);
void board_boot_id(uint8_t boot_id[HG_BOOT_ID_BYTES]);   /* another one at every boot */
const uint8_t *board_key(void);                          /* HG_KEY_BYTES, or NULL; with HG_WITH_AUTH */
uint32_t board_now_ms(void);
size_t board_write(const uint8_t *data, size_t len);     /* as many as fit now */
size_t board_read(uint8_t *data, size_t size);           /* as many as are there */
void board_set_led(bool is_on);
#if HG_WITH_UPDATE
extern const hg_update_t board_update;
#endif

#endif
