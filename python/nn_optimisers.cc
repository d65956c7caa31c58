// AdamW and the schedules of its learning rate.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "arrays.h"
#include "heed/optim.h"
#include "nn.h"

namespace heed::python {
namespace {

using namespace nb::literals;

/// A module's parameters in an arena, and the optimiser that goes over it.
class Optimiser {
 public:
  Optimiser(Module::NamedParameters parameters, const AdamW::Options& options)
      : parameters_(std::move(parameters)), module_(parameters_), arena_(module_), adam_(arena_, options) {
    for (const auto& [name, parameter] : parameters_) places_.push_back(parameter.value().raw());
  }

  void step(double learning_rate, double gradient_scale) {
    const ChangingGradients alone;
    check_places();
    adam_.step(learning_rate, gradient_scale);
  }
  void zero_grad() const {
    const ChangingGradients alone;
    arena_.zero_gradients();
  }
  double gradient_norm() const {
    const ChangingGradients alone;
    return arena_.gradient_norm();
  }
  int64_t steps() const { return adam_.steps; }

  nb::dict state_dict() const {
    nb::dict state;
    state["steps"] = adam_.steps;
    for (const auto& [name, values] : means()) state[name.c_str()] = as_numpy(values, Access::write);
    return state;
  }
  void load_state_dict(const nb::dict& state) {
    nb::dict arrays = nb::borrow<nb::dict>(state.attr("copy")());
    const nb::object steps = arrays.attr("pop")("steps", nb::none());
    if (!PyLong_Check(steps.ptr()))
      throw FormatError("AdamW: 'steps' of the state is " + shown(steps) + "; pass an int");
    const auto count = nb::cast<int64_t>(steps);
    const auto values = tensors_of("AdamW", std::move(arrays));
    const ChangingGradients alone;
    StateModule(means()).load(values);
    adam_.steps = count;
  }

 private:
  /// The means as a module, which knows how to load values by name.
  class StateModule : public Module {
   public:
    explicit StateModule(const NamedTensors& tensors) {
      for (const auto& [name, values] : tensors) register_parameter(name, values);
    }
  };

  NamedTensors means() const {
    NamedTensors all = arena_.named(adam_.m, "m.");
    const NamedTensors squares = arena_.named(adam_.v, "v.");
    all.insert(all.end(), squares.begin(), squares.end());
    return all;
  }
  void check_places() const {
    for (size_t i = 0; i < places_.size(); ++i)
      if (parameters_[i].second.value().raw() != places_[i])
        throw ShapeError("AdamW: parameter '" + parameters_[i].first +
                         "' has moved since, by to() or to another optimiser; make the optimiser anew");
  }

  Module::NamedParameters parameters_;
  FlatModule module_;
  ParameterArena arena_;
  AdamW adam_;
  std::vector<const void*> places_;
};

Schedule schedule_named(const std::string& name) {
  constexpr std::pair<const char*, Schedule> kSchedules[] = {{"inverse_square_root", Schedule::inverse_square_root},
                                                             {"cosine", Schedule::cosine},
                                                             {"constant", Schedule::constant},
                                                             {"linear", Schedule::linear}};
  for (const auto& [text, schedule] : kSchedules)
    if (name == text) return schedule;
  throw ShapeError("LearningRate: schedule is '" + name +
                   "'; pass 'inverse_square_root', 'cosine', 'constant' or 'linear'");
}

}  // namespace

void define_optimisers(nb::module_& m) {
  nb::class_<Optimiser>(m, "AdamW",
                        R"(Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019).

    optimiser = AdamW(module)
    optimiser.zero_grad(); loss.backward(); optimiser.step(learning_rate)

module        whose parameters are moved side by side: all float32 or all float64, and no module's of another optimiser
beta1, beta2  of the means of gradients and of their squares, in [0, 1)
epsilon       above 0
weight_decay  a step takes off learning_rate * weight_decay of each value; biases and norms (rank 1) do not decay

Raises ShapeError.)")
      .def(
          "__init__",
          [](Optimiser* self, nb::handle module, double beta1, double beta2, double epsilon, double weight_decay) {
            Module::NamedParameters parameters = named_parameters(module);
            const MovingParameters alone;
            new (self) Optimiser(std::move(parameters),
                                 {.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = weight_decay});
          },
          "module"_a.none(), nb::kw_only(), "beta1"_a = 0.9, "beta2"_a = 0.98, "epsilon"_a = 1e-9,
          "weight_decay"_a = 0.0,
          nb::sig("def __init__(self, module: Module, *, beta1: float = 0.9, beta2: float = 0.98, "
                  "epsilon: float = 1e-9, weight_decay: float = 0.0) -> None"))
      .def("step", &Optimiser::step, "learning_rate"_a, "gradient_scale"_a = 1.0,
           "One step along the gradients times gradient_scale, which clip_scale() gives. Raises ShapeError where a "
           "parameter has moved since.")
      .def("zero_grad", &Optimiser::zero_grad, "Sets all gradients to 0, in one pass.")
      .def("gradient_norm", &Optimiser::gradient_norm, "The Euclidean norm of all gradients, summed in float64.")
      .def_prop_ro("steps", &Optimiser::steps, "How many were taken.")
      .def("state_dict", &Optimiser::state_dict,
           nb::sig("def state_dict(self) -> dict[str, int | NDArray[typing.Any]]"),
           "What a training goes on from: 'steps', and the means 'm.NAME' and 'v.NAME' of each parameter, in place.")
      .def("load_state_dict", &Optimiser::load_state_dict, "state"_a,
           nb::sig("def load_state_dict(self, state: dict[str, int | NDArray[typing.Any]]) -> None"),
           "Takes over such a state. Raises FormatError, before anything is changed.");
  m.def("clip_scale", &clip_scale, "norm"_a, "limit"_a);

  nb::class_<LearningRate>(m, "LearningRate", R"(The learning rate of each step.

schedule  'inverse_square_root' (Vaswani et al. 2017, eq. 3), 'cosine', 'constant' or 'linear': how it falls
peak      the highest rate
floor     what cosine and linear end at
warmup    steps over which it rises to the peak; 0 for none
total     steps in all, for cosine and anneal
anneal    the last steps of total, over which it also falls linearly to 0; 0 for none

Raises ShapeError for another schedule.)")
      .def(
          "__init__",
          [](LearningRate* self, const std::string& schedule, double peak, double floor, int64_t warmup, int64_t total,
             int64_t anneal) {
            new (self) LearningRate{.schedule = schedule_named(schedule),
                                    .peak = peak,
                                    .floor = floor,
                                    .warmup = warmup,
                                    .total = total,
                                    .anneal = anneal};
          },
          "schedule"_a = "inverse_square_root", "peak"_a = 1e-3, nb::kw_only(), "floor"_a = 0.0, "warmup"_a = 2000,
          "total"_a = 0, "anneal"_a = 0)
      .def("at", &LearningRate::at, "step"_a, "progress"_a = 0.0,
           "The rate of step 1, 2, ...; progress is how much of the training was done before it, 0 to 1, which linear "
           "follows.");
}

}  // namespace heed::python
