/* The table of commands: adding one is a file beside this and a row here. */
#include "cli/command.h"
#include "cli/commands.h"

static const lj_config_key benchmark_keys[] = {LJ_CFG_model,  LJ_CFG_batch, LJ_CFG_seq,       LJ_CFG_accum,     LJ_CFG_steps,  LJ_CFG_warmup,
                                               LJ_CFG_dtype,  LJ_CFG_layers, LJ_CFG_parts,    LJ_CFG_memory,    LJ_CFG_compile, LJ_CFG_data,
                                               LJ_CFG_tokenizer, LJ_CFG_lr, LJ_CFG_clip,      LJ_CFG_deepspeed, LJ_CFG_csv,
                                               LJ_CFG_profile, LJ_CFG_recompute};
static const lj_config_key compile_keys[] = {LJ_CFG_model, LJ_CFG_program, LJ_CFG_layers, LJ_CFG_batch, LJ_CFG_seq,
                                             LJ_CFG_dtype, LJ_CFG_compile, LJ_CFG_dump_after, LJ_CFG_disable, LJ_CFG_recompute};
static const lj_config_key plan_keys[] = {LJ_CFG_model, LJ_CFG_batch, LJ_CFG_seq, LJ_CFG_accum, LJ_CFG_dtype, LJ_CFG_layers, LJ_CFG_memory, LJ_CFG_deepspeed};
/* Everything a recipe has, and what steers a run without being part of it. */
static const lj_config_key train_keys[] = {
    LJ_CFG_model,         LJ_CFG_data,      LJ_CFG_eval_data, LJ_CFG_tokenizer, LJ_CFG_out,          LJ_CFG_steps,  LJ_CFG_epochs,
    LJ_CFG_batch,         LJ_CFG_seq,       LJ_CFG_accum,     LJ_CFG_dtype,     LJ_CFG_lr,           LJ_CFG_min_lr, LJ_CFG_schedule,
    LJ_CFG_warmup,        LJ_CFG_decay_fraction, LJ_CFG_decay, LJ_CFG_weight_decay, LJ_CFG_beta1,    LJ_CFG_beta2,  LJ_CFG_adam_eps,
    LJ_CFG_clip,          LJ_CFG_eval_fraction, LJ_CFG_eval_every, LJ_CFG_save_every, LJ_CFG_keep,   LJ_CFG_resume, LJ_CFG_stop_after,
    LJ_CFG_max_loss_jump, LJ_CFG_shuffle,   LJ_CFG_compile,   LJ_CFG_allow_missing, LJ_CFG_random_weights, LJ_CFG_deepspeed, LJ_CFG_layers,
    LJ_CFG_parts,         LJ_CFG_memory,    LJ_CFG_csv,       LJ_CFG_tensorboard, LJ_CFG_config,
    LJ_CFG_chat_format,   LJ_CFG_recompute};
static const lj_config_key generate_keys[] = {LJ_CFG_model,   LJ_CFG_prompt, LJ_CFG_max_tokens, LJ_CFG_dtype, LJ_CFG_temperature,
                                              LJ_CFG_top_k,   LJ_CFG_top_p,  LJ_CFG_min_p,      LJ_CFG_repetition_penalty, LJ_CFG_stop,
                                              LJ_CFG_context, LJ_CFG_tokenizer, LJ_CFG_random_weights, LJ_CFG_ids,
                                              LJ_CFG_chat, LJ_CFG_system, LJ_CFG_chat_format};
static const lj_config_key plot_keys[] = {LJ_CFG_svg};
static const lj_config_key eval_keys[] = {LJ_CFG_model, LJ_CFG_data, LJ_CFG_tokenizer, LJ_CFG_batch, LJ_CFG_seq,
                                          LJ_CFG_dtype, LJ_CFG_random_weights, LJ_CFG_logits, LJ_CFG_chat_format,
                                          LJ_CFG_choices};
static const lj_config_key convert_keys[] = {LJ_CFG_save_dtype, LJ_CFG_shard_size, LJ_CFG_overwrite};
static const lj_config_key doctor_keys[] = {LJ_CFG_root,     LJ_CFG_image, LJ_CFG_job,   LJ_CFG_all,            LJ_CFG_bundle, LJ_CFG_watch,
                                            LJ_CFG_interval, LJ_CFG_hosts, LJ_CFG_merge, LJ_CFG_remote_command, LJ_CFG_ranks,  LJ_CFG_data_dir, LJ_CFG_check_time};
static const lj_config_key image_keys[] = {LJ_CFG_data_dir,       LJ_CFG_root,     LJ_CFG_image,    LJ_CFG_all,           LJ_CFG_registry, LJ_CFG_region,     LJ_CFG_registry_host, LJ_CFG_digest,
                                           LJ_CFG_tls_verify,     LJ_CFG_output_dir, LJ_CFG_engine, LJ_CFG_execute,       LJ_CFG_cards,    LJ_CFG_nodes,      LJ_CFG_shm_size,      LJ_CFG_kind,
                                           LJ_CFG_compute_class, LJ_CFG_card_model, LJ_CFG_driver_version, LJ_CFG_job_name, LJ_CFG_language, LJ_CFG_flavour, LJ_CFG_only, LJ_CFG_python};
static const lj_config_key tokenize_keys[] = {LJ_CFG_model, LJ_CFG_tokenizer, LJ_CFG_ids, LJ_CFG_special, LJ_CFG_out, LJ_CFG_end_token,
                                              LJ_CFG_chat_format};
static const lj_config_key detokenize_keys[] = {LJ_CFG_model, LJ_CFG_tokenizer, LJ_CFG_special};
static const lj_config_key data_keys[] = {LJ_CFG_model, LJ_CFG_tokenizer, LJ_CFG_end_token, LJ_CFG_chat_format, LJ_CFG_samples};

static const lj_config_key comm_keys[] = {LJ_CFG_collective, LJ_CFG_ranks, LJ_CFG_processes, LJ_CFG_buffers, LJ_CFG_in_place, LJ_CFG_min_bytes, LJ_CFG_max_bytes,
                                          LJ_CFG_compare,    LJ_CFG_rounds, LJ_CFG_svg,      LJ_CFG_effort,  LJ_CFG_python};

const lj_command lj_commands[] = {
    {"benchmark", "", "how fast a model trains here, and how close to the limit",
     "A model that does not fit is measured by parts, each at its true width, and the step of all its layers is summed from them.\n"
     "Presets of 7 billion parameters and more default to batch 1, 2048 tokens, 1 warm-up and 3 timed steps; others to 4 x 512, 2 and 8.",
     LJ_KEYS(benchmark_keys), lj_command_benchmark},
    {"train", "", "train or fine-tune a model on text",
     "Without --data it runs the benchmark's synthetic work. Ctrl-C finishes the step, saves and says how to go on.", LJ_KEYS(train_keys),
     lj_command_train},
    {"generate", "", "continue a prompt", NULL, LJ_KEYS(generate_keys), lj_command_generate},
    {"eval", "", "perplexity of a text under a model", NULL, LJ_KEYS(eval_keys), lj_command_eval},
    {"compile", "", "what the compiler makes of a model: passes, kernels, plan",
     "Passes in order: match, fold, cse, dce, head, accumulate, expand, fold2, dce2, fuse.", LJ_KEYS(compile_keys), lj_command_compile},
    {"plan", "", "what a training step will take in memory, and what recomputing would make of it",
     "Nothing is allocated: the plan is the one that the run would use. Without --memory the limit is what is free now, less a tenth.", LJ_KEYS(plan_keys), lj_command_plan},
    {"plot", "RUN...", "draw loss, learning rate, gradient norm and speed of runs", "In the terminal, or as SVG by --svg FILE; several runs lie over each other.",
     LJ_KEYS(plot_keys), lj_command_plot},
    {"man", "", "print the manual page", "man <(ljperf man), or install it as ljperf.1", NULL, 0, lj_command_man},
    {"completion", "bash|zsh", "print the shell's completion", "source <(ljperf completion bash)", NULL, 0, lj_command_completion},
    {"models", "", "the presets with their sizes", NULL, NULL, 0, lj_command_models},
    {"version", "", "versions, machine and what was found on it", NULL, NULL, 0, lj_command_version},
    {"kernels", "gemm", "the measured choice of provider for each shape of matrix product", NULL, NULL, 0, lj_command_kernels},
    {"inspect", "MODEL", "tensors, metadata and numbers of a model file or folder", NULL, NULL, 0, lj_command_inspect},
    {"convert", "MODEL FOLDER", "a GGUF, safetensors file or folder as a Hugging Face folder", NULL, LJ_KEYS(convert_keys), lj_command_convert},
    {"doctor", "[--merge A.json B.json ...]", "is this host, container or tree fit for the job?",
     "Runs every check in a child with a time-out of its own (under 2 s in all). The first line is the verdict with its cause, then what matters.\n"
     "Exit: 0 no check failed (warnings included), 1 some failed, 2 usage.",
     LJ_KEYS(doctor_keys), lj_command_doctor},
    {"image", "ACTION [IMAGE] [-- COMMAND ...]", "what is in an image, does it fit this host, how is it started?",
     "actions: list; show IMAGE; check IMAGE (this host or --root); pull IMAGE; run IMAGE [-- COMMAND]; k8s IMAGE [-- COMMAND];\n"
     "         diff IMAGE IMAGE; notes IMAGE; lint DIR|TAR; test (component tests)\n"
     "IMAGE is a name, name:tag, a full reference, or the path of a manifest.",
     LJ_KEYS(image_keys), lj_command_image},
    {"tokenize", "FILE...", "text to token ids, printed or as Megatron's .bin and .idx",
     "--ids prints the ids of one FILE (- is standard input), the whole file one document.\n"
     "--out PREFIX writes the documents of files and folders (.txt .md .jsonl, also .gz .zst) to PREFIX.bin and PREFIX.idx by all threads.\n"
     "An interrupted run goes on where it was when started again with the same words.",
     LJ_KEYS(tokenize_keys), lj_command_tokenize},
    {"detokenize", "[FILE]", "token ids, separated by white space, to text",
     "Bytes come out as they went in. --no-special leaves out special tokens.", LJ_KEYS(detokenize_keys), lj_command_detokenize},
    {"data", "show FILE...", "what is in a data set: counts, lengths, first samples with their loss marks",
     "FILE is text, jsonl or a folder of them (with --model), or the prefix of a .bin and .idx.", LJ_KEYS(data_keys), lj_command_data},
    {"comm", "bench|tune", "collectives: how fast they are here, beside other libraries",
     "bench: time, bandwidth and correctness of each size; --compare mpi,gloo runs the peers installed, in turns. Bytes are those a rank contributes\n"
     "(all_gather, all_to_all: to each rank) or gets (reduce_scatter); the mean is the best of 5 means over calls back to back.\n"
     "tune: measures the algorithms and keeps the cost model that ACCL chooses by.",
     LJ_KEYS(comm_keys), lj_command_comm},
};

const size_t lj_command_count = sizeof lj_commands / sizeof *lj_commands;
