/* Wrong arguments: each call gives a number and a message, and changes nothing. */

#include "test.h"

static void null_pointers(struct jext_volume *volume)
{
    struct jext_stat stat = {0};
    struct jext_statfs statfs = {0};
    struct jext_file *file = (void *)1;
    struct jext_dir *dir = (void *)1;
    struct jext_volume *other = (void *)1;
    struct jext_device *device = (void *)1;
    char byte;
    size_t count;

    stat.struct_size = sizeof(stat);
    statfs.struct_size = sizeof(statfs);
    EXPECT(jext_volume_open(NULL, NULL, &other), -EINVAL);
    SAYS("path");
    ASSERT(other == NULL);
    EXPECT(jext_volume_open("disk.img", NULL, NULL), -EINVAL);
    SAYS("volume");
    EXPECT(jext_volume_open_device(NULL, NULL, &other), -EINVAL);
    EXPECT(jext_device_open(NULL, 0, &device), -EINVAL);
    ASSERT(device == NULL);
    EXPECT(jext_device_new(NULL, &device), -EINVAL);
    EXPECT(jext_device_slice(NULL, 0, 0, &device), -EINVAL);
    EXPECT(jext_mkfs(NULL, NULL), -EINVAL);
    EXPECT(jext_mkfs_device(NULL, NULL), -EINVAL);
    EXPECT(jext_check(NULL, NULL, NULL, NULL), -EINVAL);
    EXPECT(jext_check_device(NULL, NULL, NULL, NULL), -EINVAL);
    EXPECT(jext_volume_sync(NULL), -EINVAL);
    EXPECT(jext_volume_trim(NULL, 0, NULL), -EINVAL);
    EXPECT(jext_statfs(NULL, &statfs), -EINVAL);
    EXPECT(jext_statfs(volume, NULL), -EINVAL);
    EXPECT(jext_mkdir(NULL, "/d", 0755), -EINVAL);
    EXPECT(jext_mkdir(volume, NULL, 0755), -EINVAL);
    EXPECT(jext_mknod(volume, NULL, 0100644, 0, 0), -EINVAL);
    EXPECT(jext_rmdir(volume, NULL), -EINVAL);
    EXPECT(jext_unlink(volume, NULL), -EINVAL);
    EXPECT(jext_rename(volume, NULL, "/a", 0), -EINVAL);
    EXPECT(jext_rename(volume, "/a", NULL, 0), -EINVAL);
    EXPECT(jext_link(NULL, "/a", "/b"), -EINVAL);
    EXPECT(jext_symlink(volume, NULL, "/b"), -EINVAL);
    EXPECT(jext_readlink(volume, NULL, &byte, 1, &count), -EINVAL);
    EXPECT(jext_readlink(volume, "/a", NULL, 1, &count), -EINVAL);
    EXPECT(jext_stat(volume, NULL, &stat), -EINVAL);
    EXPECT(jext_stat(volume, "/", NULL), -EINVAL);
    EXPECT(jext_lstat(NULL, "/", &stat), -EINVAL);
    EXPECT(jext_chmod(volume, NULL, 0644, 0), -EINVAL);
    EXPECT(jext_chown(volume, NULL, 0, 0, 0), -EINVAL);
    EXPECT(jext_utimens(volume, NULL, NULL, 0), -EINVAL);
    EXPECT(jext_truncate(volume, NULL, 0), -EINVAL);
    EXPECT(jext_getxattr(volume, "/", NULL, &byte, 1, &count, 0), -EINVAL);
    EXPECT(jext_setxattr(volume, "/", "user.a", NULL, 1, 0), -EINVAL);
    EXPECT(jext_listxattr(NULL, "/", NULL, 0, &count, 0), -EINVAL);
    EXPECT(jext_removexattr(volume, "/", NULL, 0), -EINVAL);
    EXPECT(jext_file_open(volume, NULL, JEXT_READ, 0, &file), -EINVAL);
    ASSERT(file == NULL);
    EXPECT(jext_file_open(volume, "/f", JEXT_READ, 0, NULL), -EINVAL);
    EXPECT(jext_file_read(NULL, &byte, 1, &count), -EINVAL);
    EXPECT(jext_file_pread(NULL, &byte, 1, 0, &count), -EINVAL);
    EXPECT(jext_file_write(NULL, &byte, 1, &count), -EINVAL);
    EXPECT(jext_file_pwrite(NULL, &byte, 1, 0, &count), -EINVAL);
    EXPECT(jext_file_seek(NULL, 0, SEEK_SET, NULL), -EINVAL);
    EXPECT(jext_file_sync(NULL), -EINVAL);
    EXPECT(jext_file_datasync(NULL), -EINVAL);
    EXPECT(jext_file_truncate(NULL, 0), -EINVAL);
    EXPECT(jext_file_stat(NULL, &stat), -EINVAL);
    EXPECT(jext_dir_open(volume, NULL, &dir), -EINVAL);
    ASSERT(dir == NULL);
    EXPECT(jext_dir_read(NULL, NULL), -EINVAL);
    EXPECT(jext_dir_seek(NULL, 0), -EINVAL);
    EXPECT(jext_dir_sync(NULL), -EINVAL);
    OK(jext_file_close(NULL));
    OK(jext_dir_close(NULL));
    OK(jext_volume_close(NULL));
    OK(jext_device_close(NULL));
}

/* A structure of a newer version of the header. */
struct newer {
    struct jext_open_options options;
    uint64_t unknown[2];
};

static void sizes(struct jext_volume *volume)
{
    struct jext_mkfs_options mkfs = {0};
    struct jext_open_options options = {0};
    struct jext_volume *other;
    struct jext_stat *stat;
    struct jext_statfs statfs;
    struct newer newer;
    char larger[sizeof(*stat) + 16];

    EXPECT(jext_mkfs("other.img", &mkfs), -EINVAL);
    SAYS("set it to sizeof(struct jext_mkfs_options)");
    EXPECT(jext_volume_open("disk.img", &options, &other), -EINVAL);
    statfs.struct_size = 1;
    EXPECT(jext_statfs(volume, &statfs), -EINVAL);
    statfs.struct_size = (size_t)-1;
    EXPECT(jext_statfs(volume, &statfs), -EINVAL);

    /* Fields that the library does not know are allowed as long as they are zero. */
    memset(&newer, 0, sizeof(newer));
    newer.options.struct_size = sizeof(newer);
    newer.unknown[1] = 1;
    EXPECT(jext_volume_open("disk.img", &newer.options, &other), -E2BIG);
    newer.unknown[1] = 0;
    EXPECT(jext_volume_open("disk.img", &newer.options, &other), -EBUSY);
    SAYS("disk.img");
    SAYS("in use");

    /* A larger structure is filled with zeros behind the known fields. */
    memset(larger, 0xAA, sizeof(larger));
    stat = (void *)larger;
    stat->struct_size = sizeof(larger);
    OK(jext_stat(volume, "/", stat));
    ASSERT(stat->struct_size == sizeof(*stat) && stat->inode == 2);
    ASSERT(larger[sizeof(*stat)] == 0 && larger[sizeof(larger) - 1] == 0);
}

static void values(struct jext_volume *volume)
{
    struct jext_mkfs_options mkfs = {0};
    struct jext_open_options options = {0};
    struct jext_time times[2] = {{0, 1000000000, 0}, {0, 0, 0}};
    struct jext_device *device;
    struct jext_volume *other;
    struct jext_file *file;
    struct jext_dir *dir;
    FILE *left;

    mkfs.struct_size = sizeof(mkfs);
    mkfs.image_size = 8 << 20;
    mkfs.type = "xfs";
    EXPECT(jext_mkfs("other.img", &mkfs), -EINVAL);
    SAYS("other.img: type is \"xfs\": expected ext2, ext3 or ext4");
    mkfs.type = NULL;
    mkfs.block_size = 1000;
    EXPECT(jext_mkfs("other.img", &mkfs), -EINVAL);
    mkfs.block_size = 0;
    mkfs.features = "nothing";
    EXPECT(jext_mkfs("other.img", &mkfs), -EOPNOTSUPP);
    mkfs.features = NULL;
    mkfs.flags = 1u << 31;
    EXPECT(jext_mkfs("other.img", &mkfs), -EINVAL);
    mkfs.flags = 0;
    left = fopen("other.img", "r");
    ASSERT(left == NULL);
    EXPECT(jext_mkfs("disk.img", &mkfs), -EBUSY);

    EXPECT(jext_device_open("nowhere.img", 0, &device), -ENOENT);
    SAYS("nowhere.img");
    EXPECT(jext_volume_open("nowhere.img", NULL, &other), -ENOENT);
    EXPECT(jext_check("nowhere.img", NULL, NULL, NULL), -ENOENT);
    options.struct_size = sizeof(options);
    options.mount_options = "data=fast";
    EXPECT(jext_volume_open("disk.img", &options, &other), -EINVAL);
    SAYS("data=fast");

    EXPECT(jext_file_open(volume, "/f", 0, 0, &file), -EINVAL);
    EXPECT(jext_file_open(volume, "/f", JEXT_READ | JEXT_TRUNCATE, 0, &file), -EINVAL);
    EXPECT(jext_file_open(volume, "/f", JEXT_READ | JEXT_EXCLUSIVE, 0, &file), -EINVAL);
    EXPECT(jext_file_open(volume, "/f", 1u << 20, 0, &file), -EINVAL);
    EXPECT(jext_file_open(volume, "/f", JEXT_READ, 0, &file), -ENOENT);
    SAYS("/f: no such file or directory");
    EXPECT(jext_file_open(volume, "", JEXT_READ, 0, &file), -ENOENT);
    EXPECT(jext_file_open(volume, "/", JEXT_READ, 0, &file), -EISDIR);
    EXPECT(jext_dir_open(volume, "/nowhere", &dir), -ENOENT);
    EXPECT(jext_rename(volume, "/a", "/b", 1u << 20), -EINVAL);
    EXPECT(jext_rename(volume, "/a", "/b", 0), -ENOENT);
    SAYS("/a and /b");
    EXPECT(jext_mknod(volume, "/n", 0040755, 0, 0), -EINVAL);
    EXPECT(jext_chmod(volume, "/", 0755, 2), -EINVAL);
    EXPECT(jext_utimens(volume, "/", times, 0), -EINVAL);
    EXPECT(jext_setxattr(volume, "/", "user.a", "", 0, 1u << 20), -EINVAL);
    EXPECT(jext_truncate(volume, "/", 0), -EISDIR);
    EXPECT(jext_unlink(volume, "/lost+found"), -EISDIR);
    EXPECT(jext_mkdir(volume, "/", 0755), -EINVAL);
}

/* Devices that do not describe themselves well; `close` is not called for them. */
static void devices(void)
{
    struct disk disk;
    struct jext_device_callbacks right, wrong;
    struct jext_device *device, *part;

    disk_init(&disk, 8 << 20);
    right = disk_callbacks(&disk);
    wrong = right;
    wrong.struct_size = 0;
    EXPECT(jext_device_new(&wrong, &device), -EINVAL);
    wrong = right;
    wrong.size = 1000;
    EXPECT(jext_device_new(&wrong, &device), -EINVAL);
    SAYS("disk: size is 1000");
    wrong.size = 0;
    EXPECT(jext_device_new(&wrong, &device), -EINVAL);
    wrong = right;
    wrong.sector_size = 1024;
    EXPECT(jext_device_new(&wrong, &device), -EINVAL);
    wrong = right;
    wrong.read = NULL;
    EXPECT(jext_device_new(&wrong, &device), -EINVAL);
    wrong = right;
    wrong.write = NULL;
    EXPECT(jext_device_new(&wrong, &device), -EINVAL);
    SAYS("JEXT_DEVICE_READ_ONLY");
    wrong = right;
    wrong.flags = 1u << 31;
    EXPECT(jext_device_new(&wrong, &device), -EINVAL);
    ASSERT(device == NULL && disk.closes == 0);

    OK(jext_device_new(&right, &device));
    EXPECT(jext_device_slice(device, 100, 0, &part), -EINVAL);
    EXPECT(jext_device_slice(device, 0, 1 << 30, &part), -EINVAL);
    OK(jext_device_slice(device, 1 << 20, 0, &part));
    OK(jext_device_close(device));
    ASSERT(disk.closes == 0);
    EXPECT(jext_check_device(part, NULL, NULL, NULL), -EUCLEAN);
    SAYS("superblock");
    OK(jext_device_close(part));
    ASSERT(disk.closes == 1);
    disk_free(&disk);
}

int main(int argc, char **argv)
{
    struct jext_mkfs_options mkfs = {0};
    struct jext_volume *volume;

    ASSERT(argc == 2 && strcmp(argv[1], "disk.img") == 0);
    ASSERT(strcmp(jext_last_error(), "") == 0);
    ASSERT(strchr(jext_version(), '.') != NULL);
    mkfs.struct_size = sizeof(mkfs);
    mkfs.image_size = 16 << 20;
    OK(jext_mkfs("disk.img", &mkfs));
    EXPECT(jext_mkfs("disk.img", &mkfs), -EEXIST);
    SAYS("JEXT_MKFS_FORCE");
    OK(jext_volume_open("disk.img", NULL, &volume));
    null_pointers(volume);
    sizes(volume);
    values(volume);
    devices();
    OK(jext_volume_close(volume));
    passed("arguments");
    return 0;
}
