/* A clock that the testbed holds in its hands: preloaded into one agent, it answers for the kernel.
 *
 * The wall clock and the clock since boot run at a rate of their own from a moment that a small shared file names. The
 * monotonic clock is left alone, so that timers keep their pace: only what is written on the messages changes.
 * The file is written while it is read; `serial` is odd meanwhile, and changes with every change.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define NANOS INT64_C(1000000000)

typedef struct {
    volatile uint64_t serial;
    int64_t changed_at_ns; /* on the monotonic clock */
    int64_t realtime_ns;   /* what the two clocks said then */
    int64_t boottime_ns;
    double rate;
    int64_t max_error_us; /* what the kernel thinks of its clock; 16000000: nobody ever set it */
} hand_t;

static const hand_t *shared;

__attribute__((constructor)) static void take_in_hand(void) {
    const char *path = getenv("HEADGATE_TESTBED_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *found = mmap(NULL, sizeof(hand_t), PROT_READ, MAP_SHARED, fd, 0);
        shared = found == MAP_FAILED ? NULL : found;
        close(fd);
    }
}

static int kernel_clock(clockid_t id, struct timespec *out) { return (int)syscall(SYS_clock_gettime, id, out); }

static int64_t kernel_ns(clockid_t id) {
    struct timespec now;
    kernel_clock(id, &now);
    return now.tv_sec * NANOS + now.tv_nsec;
}

static hand_t look(void) {
    hand_t seen;
    do {
        memcpy(&seen, (const void *)shared, sizeof seen);
        __sync_synchronize();
    } while (seen.serial % 2 != 0 || seen.serial != shared->serial);
    return seen;
}

static int64_t moved_on(const hand_t *hand, int64_t from_ns) {
    return from_ns + (int64_t)((double)(kernel_ns(CLOCK_MONOTONIC) - hand->changed_at_ns) * hand->rate);
}

static void as_timespec(int64_t ns, struct timespec *out) {
    out->tv_sec = ns / NANOS;
    out->tv_nsec = ns % NANOS;
}

int clock_gettime(clockid_t id, struct timespec *out) {
    if (shared && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_BOOTTIME)) {
        hand_t hand = look();
        as_timespec(moved_on(&hand, id == CLOCK_BOOTTIME ? hand.boottime_ns : hand.realtime_ns), out);
        return 0;
    }
    return kernel_clock(id, out);
}

int gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

int adjtimex(struct timex *state) {
    if (!shared) {
        return (int)syscall(SYS_adjtimex, state);
    }
    if (state->modes != 0) { /* nobody under test sets the machine's clock */
        errno = EPERM;
        return -1;
    }
    hand_t hand = look();
    memset(state, 0, sizeof *state);
    state->maxerror = hand.max_error_us;
    state->status = hand.max_error_us >= 16000000 ? STA_UNSYNC : 0;
    gettimeofday(&state->time, NULL);
    return state->status ? TIME_ERROR : TIME_OK;
}
