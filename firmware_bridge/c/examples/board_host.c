/* The example as an ordinary program, for a machine without a board or QEMU:
 *
 *     firmware-host [--fd N] [--id NAME] [--interval-ms N] [--key HEX]
 *
 * It uses the file descriptor N (a socket, or the master of a pty), else on its standard input and output, and
 * ends when the other end closes. A reset is ending the process and starting another. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "board.h"

#define TICK_MS 10

static int in_fd = STDIN_FILENO, out_fd = STDOUT_FILENO;
static const char *device_id = "host-example";
static uint8_t key[HG_KEY_BYTES];
static bool has_key, is_closed;
static struct timespec started;

const char *board_device_id(void)
{
    return device_id;
}

void board_boot_id(uint8_t boot_id[HG_BOOT_ID_BYTES])
{
    int fd = open("/dev/urandom", O_RDONLY);
    if (fd < 0 || read(fd, boot_id, HG_BOOT_ID_BYTES) != HG_BOOT_ID_BYTES) {
        perror("/dev/urandom");
        exit(EXIT_FAILURE);
    }
    close(fd);
}

const uint8_t *board_key(void)
{
    return has_key ? key : NULL;
}

uint32_t board_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((now.tv_sec - started.tv_sec) * 1000 + (now.tv_nsec - started.tv_nsec) / 1000000);
}

size_t board_write(const uint8_t *data, size_t len)
{
    ssize_t written = write(out_fd, data, len);
    if (written < 0 && errno != EAGAIN && errno != EINTR) {
        is_closed = true;
    }
    return written < 0 ? 0 : (size_t)written;
}

size_t board_read(uint8_t *data, size_t size)
{
    ssize_t count = read(in_fd, data, size);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        is_closed = true;
    }
    return count < 0 ? 0 : (size_t)count;
}

void board_set_led(bool is_on)
{
    (void)is_on;
}

static void set_key(const char *hex)
{
    has_key = strlen(hex) == 2 * HG_KEY_BYTES;
    for (size_t i = 0; has_key && i < HG_KEY_BYTES; i++) {
        unsigned byte;
        has_key = sscanf(hex + 2 * i, "%2x", &byte) == 1;
        key[i] = (uint8_t)byte;
    }
    if (!has_key) {
        fprintf(stderr, "--key: %d bytes in hex are expected\n", HG_KEY_BYTES);
        exit(EXIT_FAILURE);
    }
}

static uint32_t parse_options(int count, char **words)
{
    uint32_t interval_ms = APP_DEFAULT_INTERVAL_MS;
    for (int i = 1; i < count; i += 2) {
        const char *value = i + 1 < count ? words[i + 1] : "";
        if (strcmp(words[i], "--fd") == 0) {
            in_fd = out_fd = atoi(value);
        } else if (strcmp(words[i], "--id") == 0) {
            device_id = value;
        } else if (strcmp(words[i], "--interval-ms") == 0) {
            interval_ms = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(words[i], "--key") == 0) {
            set_key(value);
        } else {
            fprintf(stderr, "usage: %s [--fd N] [--id NAME] [--interval-ms N] [--key HEX]\n", words[0]);
            exit(EXIT_FAILURE);
        }
    }
    return interval_ms;
}

int main(int count, char **words)
{
    static app_t app;
    uint32_t interval_ms = parse_options(count, words);
    clock_gettime(CLOCK_MONOTONIC, &started);
    signal(SIGPIPE, SIG_IGN);      /* write() reports it as well */
    fcntl(in_fd, F_SETFL, fcntl(in_fd, F_GETFL) | O_NONBLOCK);
    fcntl(out_fd, F_SETFL, fcntl(out_fd, F_GETFL) | O_NONBLOCK);
    if (app_init(&app, interval_ms) != HG_OK) {
        fprintf(stderr, "the device's id does not fit\n");
        return EXIT_FAILURE;
    }
    while (!is_closed) {
        if (app_step(&app)) {
            struct pollfd line = {in_fd, POLLIN, 0};
            poll(&line, 1, TICK_MS);
        } else if (!hg_link_is_idle(&app.link)) {
            struct pollfd line = {out_fd, POLLOUT, 0};
            poll(&line, 1, TICK_MS);
        }
    }
    return EXIT_SUCCESS;
}
