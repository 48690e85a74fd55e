# Short front of the CMake build. `make` leaves build/ljperf, build/libljperf.so and build/libaccl.so.
BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
GENERATOR := $(if $(shell command -v ninja),-G Ninja,)

.PHONY: all test test-sanitize demo bars install format lint clean setup

all: $(BUILD)/CMakeCache.txt
	@cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/CMakeCache.txt:
	@cmake -S . -B $(BUILD) $(GENERATOR) -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null

test: all
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

test-sanitize:
	@cmake -S . -B build-sanitize $(GENERATOR) -DCMAKE_BUILD_TYPE=Debug -DLJ_SANITIZE=ON >/dev/null
	@cmake --build build-sanitize -j $(JOBS)
	@cd build-sanitize && ctest --output-on-failure -j $(JOBS) $(SANITIZE_ARGS)

demo:
	@tools/demo.sh

# Every row of an issue's table, one JSON line a row: make bars GROUP=core
bars: all
	@bench/run.sh $(GROUP)

setup:
	@tools/setup.sh

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

lint: all
	@tools/lint.sh

clean:
	@rm -rf build build-sanitize build-fuzz
