#include "base/machine.h"
#include "cli/commands.h"

#include <stdio.h>

int lj_command_version(const lj_command_input *input)
{
    (void)input;
    const lj_machine *machine = lj_machine_get();
    printf("ljperf %s\nmachine: %s, %s, %d processors, class %s\n", LJ_VERSION, machine->cpu_name, lj_isa_name(machine->isa), machine->cores,
           lj_machine_class());
    return LJ_EXIT_OK;
}
