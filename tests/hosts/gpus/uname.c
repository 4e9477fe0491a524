/* For /etc/ld.so.preload of a host: its programs see the kernel release that /etc/fake-kernel holds, not this machine's. */

#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int uname(struct utsname *name) {
    int code = (int)syscall(SYS_uname, name);
    FILE *file = fopen("/etc/fake-kernel", "r");
    if (file) {
        if (fscanf(file, "%64s", name->release) != 1) code = -1;
        fclose(file);
    }
    return code;
}
