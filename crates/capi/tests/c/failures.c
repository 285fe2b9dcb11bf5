/* Devices that fail: every number of writes, a full one, wrong results, one that cannot flush,
 * and sectors of 4096 bytes. */

#include "test.h"

enum { SIZE = 8 << 20 };

/* Makes a file system on a new disk. */
static void make(struct disk *disk)
{
    struct jext_mkfs_options mkfs = {0};
    struct jext_device *device;

    mkfs.struct_size = sizeof(mkfs);
    mkfs.block_size = disk->unit == 4096 ? 4096 : 1024;
    device = disk_device(disk);
    OK(jext_mkfs_device(device, &mkfs));
    OK(jext_device_close(device));
}

/* Opens, writes and closes; returns the first failure. The device is closed. */
static int use_device(struct jext_device *device)
{
    struct jext_volume *volume;
    int result, closed;

    result = jext_volume_open_device(device, NULL, &volume);
    OK(jext_device_close(device));
    if (result < 0) {
        ASSERT(volume == NULL && strlen(jext_last_error()) > 0);
        return result;
    }
    result = jext_mkdir(volume, "/d", 0755);
    if (result == 0)
        result = put(volume, "/d/synced", "synced", 6);
    if (result < 0)
        ASSERT(strlen(jext_last_error()) > 0);
    closed = jext_volume_close(volume);
    return result < 0 ? result : closed;
}

static int use(struct disk *disk)
{
    return use_device(disk_device(disk));
}

/* All calls fail from some write on: no crash, no hang, a number; the next open recovers. */
static void every_write(void)
{
    struct disk disk;
    struct jext_device *device;
    struct jext_volume *volume;
    long writes, left;
    int result;

    disk_init(&disk, SIZE);
    make(&disk);
    disk.writes = 0;
    OK(use(&disk));
    writes = disk.writes;
    ASSERT(writes > 5);
    disk_free(&disk);
    for (left = 0; left < writes; left++) {
        disk_init(&disk, SIZE);
        make(&disk);
        disk.writes_left = left;
        result = use(&disk);
        ASSERT(result == -EIO || result == -EROFS || (result == 0 && left > 0));
        ASSERT(disk.closes == 2);
        disk.writes_left = -1;
        device = disk_device(&disk);
        OK(jext_volume_open_device(device, NULL, &volume));
        OK(jext_volume_close(volume));
        OK(jext_check_device(device, NULL, NULL, NULL));
        OK(jext_device_close(device));
        disk_free(&disk);
    }
}

/* A failing read names operation, place and device. */
static void messages(void)
{
    struct disk disk;

    disk_init(&disk, SIZE);
    make(&disk);
    disk.writes_left = 0;
    EXPECT(use(&disk), -EIO);
    SAYS("read of ");
    SAYS("failed on disk: Input/output error");
    disk.writes_left = -1;
    disk.result_broken = 7;
    EXPECT(use(&disk), -EIO);
    SAYS("the callback returned 7, not 0 or a negative errno");
    disk_free(&disk);
}

static int full_write(void *context, const void *data, size_t count, uint64_t offset)
{
    struct disk *disk = context;
    (void)data;
    (void)count;
    (void)offset;
    return disk->error;
}

/* Storage that is full gives -ENOSPC. */
static void full(void)
{
    struct disk disk;
    struct jext_device_callbacks callbacks;
    struct jext_device *device;

    disk_init(&disk, SIZE);
    disk.error = -ENOSPC;
    callbacks = disk_callbacks(&disk);
    callbacks.write = full_write;
    OK(jext_device_new(&callbacks, &device));
    EXPECT(jext_mkfs_device(device, NULL), -ENOSPC);
    SAYS("disk: no space left behind disk");
    OK(jext_device_close(device));
    disk_free(&disk);
}

/* Reads until the storage is "full". */
static long reads_left;

static int full_read(void *context, void *buffer, size_t count, uint64_t offset)
{
    if (reads_left == 0)
        return -ENOSPC;
    reads_left--;
    return disk_read(context, buffer, count, offset);
}

static int full_flush(void *context)
{
    (void)context;
    return -ENOSPC;
}

/* Only writes and discards find storage full: -ENOSPC from other callbacks is a failure as any. */
static void full_of_nothing(void)
{
    struct disk disk;
    struct jext_device_callbacks callbacks;
    struct jext_device *device;
    long reads;
    int result = -EIO;

    disk_init(&disk, SIZE);
    callbacks = disk_callbacks(&disk);
    callbacks.flush = full_flush;
    OK(jext_device_new(&callbacks, &device));
    EXPECT(jext_mkfs_device(device, NULL), -EIO);
    SAYS("No space left on device (os error 28), from the callback flush");
    OK(jext_device_close(device));
    disk_free(&disk);

    /* Some writes are parts of sectors, which are read first. */
    for (reads = 0; result != 0; reads++) {
        disk_init(&disk, SIZE);
        disk.unit = 4096;
        make(&disk);
        callbacks = disk_callbacks(&disk);
        callbacks.read = full_read;
        reads_left = reads;
        OK(jext_device_new(&callbacks, &device));
        result = use_device(device);
        ASSERT(result == -EIO || result == -EROFS || result == 0);
        disk_free(&disk);
    }
    ASSERT(reads > 5);
}

/* Without flush a device is only read, unless its writes are durable. */
static void flushes(void)
{
    struct disk disk;
    struct jext_device_callbacks callbacks;
    struct jext_open_options options = {0};
    struct jext_device *device;
    struct jext_volume *volume;

    disk_init(&disk, SIZE);
    make(&disk);
    callbacks = disk_callbacks(&disk);
    callbacks.flush = NULL;
    callbacks.discard = NULL;
    OK(jext_device_new(&callbacks, &device));
    EXPECT(jext_volume_open_device(device, NULL, &volume), -EROFS);
    SAYS("cannot flush");
    options.struct_size = sizeof(options);
    options.flags = JEXT_OPEN_READ_ONLY;
    OK(jext_volume_open_device(device, &options, &volume));
    OK(jext_volume_close(volume));
    OK(jext_device_close(device));

    callbacks.flags = JEXT_DEVICE_WRITE_THROUGH;
    OK(jext_device_new(&callbacks, &device));
    OK(jext_volume_open_device(device, NULL, &volume));
    OK(put(volume, "/f", "through", 7));
    OK(jext_volume_trim(volume, 0, NULL));
    OK(jext_volume_close(volume));
    OK(jext_check_device(device, NULL, NULL, NULL));
    OK(jext_device_close(device));

    callbacks.flags = JEXT_DEVICE_READ_ONLY;
    callbacks.write = NULL;
    OK(jext_device_new(&callbacks, &device));
    OK(jext_volume_open_device(device, &options, &volume));
    expect_contents(volume, "/f", "through", 7);
    OK(jext_volume_close(volume));
    EXPECT(jext_volume_open_device(device, NULL, &volume), -EROFS);
    OK(jext_device_close(device));
    disk_free(&disk);
}

/* A disk with sectors of 4096 bytes sees nothing smaller. */
static void large_sectors(void)
{
    struct disk disk;
    struct jext_device *device;

    disk_init(&disk, SIZE);
    disk.unit = 4096;
    make(&disk);
    OK(use(&disk));
    device = disk_device(&disk);
    OK(jext_check_device(device, NULL, NULL, NULL));
    OK(jext_device_close(device));
    disk_free(&disk);
}

static int count_problem(void *context, const struct jext_problem *problem)
{
    int *count = context;
    ASSERT(problem->text != NULL && problem->number >= 100);
    (*count)++;
    return *count == 2; /* stops the report */
}

/* A damaged file system is reported, and neither opened nor checked into a crash. */
static void damage(void)
{
    struct disk disk;
    struct jext_device *device;
    int count = 0;

    disk_init(&disk, SIZE);
    make(&disk);
    OK(use(&disk));
    /* The inode tables lie somewhere in the first megabyte. */
    memset(disk.current + (64 << 10), 0x55, 512 << 10);
    device = disk_device(&disk);
    EXPECT(jext_check_device(device, NULL, count_problem, &count), -EUCLEAN);
    SAYS("errors");
    ASSERT(count == 2);
    OK(jext_device_close(device));
    disk_free(&disk);
}

int main(void)
{
    every_write();
    messages();
    full();
    full_of_nothing();
    flushes();
    large_sectors();
    damage();
    passed("failures");
    return 0;
}
