/* The header twice, and a use of its structures and constants in the common part of C and C++. */

#include <jext.h>
#include <jext.h>

static int print(void *context, const struct jext_problem *problem)
{
    (void)context;
    return problem->is_error != 0;
}

int use(struct jext_volume *volume, struct jext_file **file);

/* Structures keep their sizes: programs were compiled with them. */
#define KEEPS(type, size) typedef char keeps_##type[sizeof(void *) != 8 || sizeof(struct type) == size ? 1 : -1]
KEEPS(jext_check_options, 32);
KEEPS(jext_device_callbacks, 80);
KEEPS(jext_mkfs_options, 136);
KEEPS(jext_open_options, 56);
KEEPS(jext_stat, 136);
KEEPS(jext_statfs, 104);
KEEPS(jext_time, 16);

int use(struct jext_volume *volume, struct jext_file **file)
{
    struct jext_stat stat;
    stat.struct_size = sizeof(stat);
    if (jext_stat(volume, "/", &stat) < 0 || jext_check("disk.img", NULL, print, NULL) < 0)
        return -1;
    return jext_file_open(volume, "/f", JEXT_READ | JEXT_WRITE | JEXT_CREATE, 0644, file);
}
