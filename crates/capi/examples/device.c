/* A device of callbacks: a disk in memory. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jext.h>

#define SIZE ((size_t)32 << 20)

static int disk_read(void *context, void *buffer, size_t count, uint64_t offset)
{
    memcpy(buffer, (char *)context + offset, count);
    return 0; /* or -EIO */
}

static int disk_write(void *context, const void *data, size_t count, uint64_t offset)
{
    memcpy((char *)context + offset, data, count);
    return 0;
}

static int disk_flush(void *context)
{
    (void)context; /* a disk makes durable here what was written */
    return 0;
}

static int disk_discard(void *context, uint64_t offset, uint64_t count)
{
    memset((char *)context + offset, 0, count);
    return 0;
}

static void disk_close(void *context)
{
    free(context);
}

static void check(int result)
{
    if (result < 0) {
        fprintf(stderr, "device: %s\n", jext_last_error());
        exit(1);
    }
}

static int print(void *context, const struct jext_problem *problem)
{
    (void)context;
    printf("%s\n", problem->text);
    return 0;
}

int main(void)
{
    struct jext_device_callbacks callbacks = {0};
    struct jext_open_options open = {0};
    struct jext_device *device;
    struct jext_volume *volume;
    uint64_t discarded;

    callbacks.struct_size = sizeof(callbacks);
    callbacks.context = calloc(1, SIZE);
    callbacks.name = "memory";
    callbacks.size = SIZE;
    callbacks.read = disk_read;
    callbacks.write = disk_write;
    callbacks.flush = disk_flush;
    callbacks.discard = disk_discard;
    callbacks.close = disk_close;
    check(jext_device_new(&callbacks, &device));
    check(jext_mkfs_device(device, NULL));

    open.struct_size = sizeof(open);
    open.mount_options = "data=journal,noatime";
    check(jext_volume_open_device(device, &open, &volume));
    check(jext_mkdir(volume, "/mail", 0755));
    check(jext_volume_trim(volume, 0, &discarded));
    check(jext_volume_close(volume));

    check(jext_check_device(device, NULL, print, NULL));
    check(jext_device_close(device)); /* calls disk_close */
    printf("clean, %s\n", discarded > SIZE / 2 ? "trimmed" : "not trimmed");
    return 0;
}
