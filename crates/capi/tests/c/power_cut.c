/* A power cut: the disk loses what was not flushed, at several moments. What was synced is there. */

#include "test.h"

enum { SIZE = 16 << 20, MOMENTS = 6 };

/* Returns the disk after a power cut. */
static void cut(struct disk *disk, struct disk *after)
{
    disk_init(after, disk->size);
    pthread_mutex_lock(&disk->lock);
    memcpy(after->current, disk->durable, disk->size);
    pthread_mutex_unlock(&disk->lock);
    memcpy(after->durable, after->current, disk->size);
}

int main(void)
{
    struct disk disk, after[MOMENTS];
    struct jext_device *device;
    struct jext_volume *volume;
    struct jext_open_options options = {0};
    struct jext_statfs statfs = {0};
    struct jext_stat stat = {0};
    struct jext_file *file;
    char path[32], text[64];
    int index, moment, replayed = 0;

    statfs.struct_size = sizeof(statfs);
    stat.struct_size = sizeof(stat);
    disk_init(&disk, SIZE);
    device = disk_device(&disk);
    OK(jext_mkfs_device(device, NULL));
    OK(jext_volume_open_device(device, NULL, &volume));
    for (moment = 0; moment < MOMENTS; moment++) {
        sprintf(path, "/synced-%d", moment);
        sprintf(text, "moment %d", moment);
        OK(put(volume, path, text, strlen(text)));
        /* Not synced: it may be there or not. */
        sprintf(path, "/lost-%d", moment);
        OK(jext_file_open(volume, path, JEXT_WRITE | JEXT_CREATE, 0644, &file));
        OK(jext_file_write(file, path, strlen(path), NULL));
        OK(jext_file_close(file));
        cut(&disk, &after[moment]);
    }
    /* The power is gone: nothing works, and the close says so. */
    disk.writes_left = 0;
    EXPECT(jext_volume_close(volume), -EIO);
    OK(jext_device_close(device));
    ASSERT(disk.closes == 1);

    for (moment = 0; moment < MOMENTS; moment++) {
        device = disk_device(&after[moment]);
        OK(jext_check_device(device, NULL, NULL, NULL));
        /* Read-only first: the replay stays in memory. */
        options.struct_size = sizeof(options);
        options.flags = JEXT_OPEN_READ_ONLY;
        OK(jext_volume_open_device(device, &options, &volume));
        OK(jext_volume_close(volume));
        ASSERT(after[moment].writes == 0);

        OK(jext_volume_open_device(device, NULL, &volume));
        OK(jext_statfs(volume, &statfs));
        replayed += (int)(statfs.replayed_transactions + statfs.replayed_fast_commits);
        for (index = 0; index <= moment; index++) {
            sprintf(path, "/synced-%d", index);
            sprintf(text, "moment %d", index);
            expect_contents(volume, path, text, strlen(text));
        }
        sprintf(path, "/synced-%d", moment + 1);
        EXPECT(jext_stat(volume, path, &stat), -ENOENT);
        OK(jext_volume_close(volume));
        OK(jext_check_device(device, NULL, NULL, NULL));
        OK(jext_device_close(device));
        disk_free(&after[moment]);
    }
    ASSERT(replayed > 0);
    disk_free(&disk);
    passed("power_cut");
    return 0;
}
